/*
 * frames.h - Python functions that are being called, seen from the C function inside of them.
 *
 * Owns: nothing.
 * Threads: GIL held, no exception pending. Depth 0 is the innermost Python function.
 * Fails: NULL or false. Where a frame of this Python version is not laid out as known, the slower
 * way through its attributes is used.
 */
#ifndef PB_AGENT_TORCH_FRAMES_H
#define PB_AGENT_TORCH_FRAMES_H

#include <stdbool.h>

struct pb_py;
struct pb_torch;
struct _object;

/* A new reference, or NULL. */
struct _object *pb_torch_frame(const struct pb_py *py, int depth);
/* Whether the innermost function, or the one around it, is of the module with these globals. */
bool pb_torch_called_from(struct pb_torch *t, const struct _object *globals);
/* Whether this is within the call of a module that began before the collector came. */
bool pb_torch_called_within(struct pb_torch *t);
/* Whether this is within the step of an optimizer, also of one that began before. */
bool pb_torch_steps_within(struct pb_torch *t);
/* Borrowed: the optimizer among a frame's locals, or NULL. */
struct _object *pb_torch_frame_optimizer(struct pb_torch *t, struct _object *frame);
/* Borrowed: the optimizer whose step torch's profiler has just been told of, or NULL. */
struct _object *pb_torch_step_optimizer(struct pb_torch *t);

#endif
