/*
 * split.h - names for the parts that a compiler splits off a function.
 *
 * Owns: nothing; names go into the arena.
 * Threads: one user per module.
 * Fails: no name where the proof is not complete.
 * Not here: symbols that exist (symbols.h).
 *
 * Compilers move what they think is cold away from its function, as name.cold.
 * In a stripped file that name is gone, and a profile that misjudged the
 * program can leave most of the interpreter loop in there. Two facts still
 * prove where a part belongs: its unwind rules begin with a frame that is
 * already built, so it is not a function of its own; and its jumps lead into
 * the middle of exactly one named function.
 */
#ifndef PB_STACK_NATIVE_SYMBOLS_SPLIT_H
#define PB_STACK_NATIVE_SYMBOLS_SPLIT_H

#include "host/text/arena.h"
#include "stack/native/module.h"
#include "stack/native/symbols/symbols.h"

/* Names the wanted addresses that have none yet and lie in such a part. */
void pb_split_name(struct pb_module *m, struct pb_symbol_query *v, size_t n, struct pb_arena *a);

#endif
