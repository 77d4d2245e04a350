/*
 * hijack.h - sending a thread through the stub.
 *
 * Owns: the stop of one thread, for as long as the call lasts.
 * Threads: the caller's thread is the tracer.
 * Fails: the thread then goes on as it was, and the caller may try again.
 * Not here: what the stub does (arch/), what comes after (handover.c).
 */
#ifndef PB_INJECT_HIJACK_H
#define PB_INJECT_HIJACK_H

#include "inject/internal.h"

/*
 * Looks for a safe thread until the deadline and sends it through the stub.
 * On failure err says why no thread was safe.
 */
int pb_hijack(struct pb_injection *in, struct pb_err *err);

#endif
