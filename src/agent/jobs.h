/*
 * jobs.h - evaluations: each on a thread of its own, each with a deadline.
 *
 * Owns: the slots in struct pb_self, and the messages that hold their code.
 * Threads: as said at each function.
 * Fails: the client always gets its DONE, if only to hear that there is no
 * room; code that does not end in time is interrupted, then disowned.
 * Not here: what evaluating means (glue/glue.py), the socket (control.h).
 */
#ifndef PB_AGENT_JOBS_H
#define PB_AGENT_JOBS_H

#include "agent/core/self.h"
#include "agent/server.h"

/* Control: starts the message that the client just completed, and takes over its memory. */
void pb_jobs_start(struct pb_self *self, struct pb_client *client);
/* Control: an INTERRUPT of this client for question id. */
void pb_jobs_interrupt(struct pb_self *self, const struct pb_client *client, uint32_t id);
/* Control: the client is gone; nobody wants the results. */
void pb_jobs_abandon(struct pb_self *self, const struct pb_client *client);
/* Control: ends what is overdue. Milliseconds until it must be called again, -1 for never. */
int pb_jobs_tick(struct pb_self *self);
/* Control: does this client have any? */
bool pb_jobs_of(struct pb_self *self, const struct pb_client *client);
/* Any: jobs that are not free. */
int pb_jobs_count(struct pb_self *self);

/*
 * GIL held: throws KeyboardInterrupt into the jobs that are to end. True: one is where that would
 * leave a lock taken, and this is to be called again soon. Takes self->lock.
 */
bool pb_jobs_throw(struct pb_self *self);
/* Any: has KeyboardInterrupt been thrown into this job? Takes self->lock. */
bool pb_jobs_was_thrown(struct pb_self *self, uint32_t number);
/* Any: asks all to end, as an interrupt would. */
void pb_jobs_break_all(struct pb_self *self);
/* GIL held, evaluating thread: bytes that the code printed. */
void pb_jobs_print(struct pb_self *self, uint32_t number, enum pb_wire_type type,
                   const char *data, size_t len);

/*
 * Any thread: answers and frees a job whose evaluation is over; it may have been reset by fork
 * meanwhile. Takes self->lock.
 */
void pb_jobs_finish(struct pb_self *self, struct pb_job *job, uint32_t number,
                    enum pb_wire_result result, const char *why);

/* Control: an answer that needs no job. */
void pb_jobs_answer(struct pb_self *self, struct pb_client *client, uint32_t id,
                    enum pb_wire_result result, const char *why);

#endif
