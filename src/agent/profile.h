/*
 * profile.h - what the script of `probing PID profile` may call inside the target.
 *
 * Owns: nothing.
 * Threads: called by Python, with the GIL.
 * Fails: with a Python exception in the script.
 * Not here: the script (cli/scripts/profile.py), where its functions are put (glue.c).
 */
#ifndef PB_AGENT_PROFILE_H
#define PB_AGENT_PROFILE_H

#include "agent/py/api.h"

/*
 * Methods that end with one without a name:
 *   torch_listen(function or None) -> bool   see pb_torch_listen
 *   torch_profiled(bool)                     see pb_torch_set_profiled
 *   torch_count(begin=None) -> int           operations since torch_count(True), -1: not to be
 *                                            counted; torch_count(False) ends it
 *   torch_place() -> (step, collectives)     see pb_torch_place
 *   profile_row(steps, op, shapes, calls, self_cpu, cpu, self_device, device)
 *                                            appends to python.profile_ops
 */
struct pb_py_method *pb_profile_methods(void);

#endif
