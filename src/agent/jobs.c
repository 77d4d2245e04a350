#include "agent/jobs.h"

#include <string.h>
#include <unistd.h>

#include "agent/collectors/audit.h"
#include "agent/core/gil.h"
#include "agent/core/gil_tasks.h"
#include "agent/outbox.h"
#include "base/clock.h"
#include "base/pages.h"

#define MS 1000000ull
/* After the interrupt: how long code gets to end before it is left alone. */
#define GRACE_NS (1000 * MS)
#define FULL_US 2000
#define NO_DEADLINE UINT64_MAX

static void lock(struct pb_self *self)
{
    pthread_mutex_lock(&self->lock);
}

static void unlock(struct pb_self *self)
{
    pthread_mutex_unlock(&self->lock);
}

/* The client that asked, NULL when it left. Called with self->lock held. */
static struct pb_client *client_of(struct pb_self *self, const struct pb_job *job)
{
    struct pb_client *c = &self->server->clients[job->client];

    return c->fd >= 0 && c->serial == job->client_serial && !c->gone ? c : NULL;
}

/* Called with self->lock held. */
static void put_done(struct pb_client *c, uint32_t id, enum pb_wire_result result,
                     const char *why)
{
    struct pb_wire_done done = {.result = result};

    if (!pb_outbox_put(&c->out, PB_WIRE_DONE, id, &done, sizeof done, why, strlen(why), 0))
        c->gone = true;
}

void pb_jobs_answer(struct pb_self *self, struct pb_client *client, uint32_t id,
                    enum pb_wire_result result, const char *why)
{
    lock(self);
    put_done(client, id, result, why);
    unlock(self);
}

/* Writes the job's row of probing.audit, once. Called with self->lock held. */
static void audit(struct pb_self *self, struct pb_job *job, enum pb_wire_result result)
{
    static const char *const words[] = {
        [PB_WIRE_OK] = "ok",           [PB_WIRE_EXCEPTION] = "error",
        [PB_WIRE_REFUSED] = "refused", [PB_WIRE_NO_GIL] = "timeout",
        [PB_WIRE_EXPIRED] = "timeout", [PB_WIRE_INTERRUPTED] = "interrupted",
        [PB_WIRE_MORE] = "ok",
    };

    if (job->audited || job->complete)
        return;
    job->audited = true;
    pb_audit_write(self, &(struct pb_audit){
                             .action = "eval",
                             .result = words[result],
                             .uid = job->peer_uid,
                             .pid = job->peer_pid,
                             .client = job->peer_name,
                             .code = true,
                             .wall_ns = job->asked_wall_ns,
                             .asked_ns = job->asked_ns,
                             .detail = job->code,
                             .detail_len = job->code_len,
                         });
}

/* Tells the client how the job ended, once. Called with self->lock held. */
static void answer(struct pb_self *self, struct pb_job *job, enum pb_wire_result result,
                   const char *why)
{
    struct pb_client *c = client_of(self, job);

    audit(self, job, result);
    if (!job->answered && c)
        put_done(c, job->id, result, why);
    job->answered = true;
}

/* Frees the slot. Called with self->lock held. */
static void release(struct pb_job *job)
{
    pb_pages_free(job->map, job->map_size);
    *job = (struct pb_job){.state = PB_JOB_FREE};
}

void pb_jobs_finish(struct pb_self *self, struct pb_job *job, uint32_t number,
                    enum pb_wire_result result, const char *why)
{
    lock(self);
    if (job->number == number && job->state != PB_JOB_FREE) {
        if (result == PB_WIRE_INTERRUPTED)
            result = job->breaking ? job->verdict : PB_WIRE_EXCEPTION;
        answer(self, job, result, why);
        release(job);
        self->server->served++;
    }
    unlock(self);
    pb_self_wake(self);
}

/* Answers a waiting job at once, interrupts a running one. Called with self->lock held. */
static void break_job(struct pb_self *self, struct pb_job *job, enum pb_wire_result verdict)
{
    if (job->state == PB_JOB_WAITING) {
        bool on_main = job->how.flags & PB_WIRE_MAIN;

        if (verdict == PB_WIRE_EXPIRED)
            answer(self, job, PB_WIRE_NO_GIL,
                   on_main ? "the main thread did not reach a safe point" : pb_gil_why_not(self));
        else
            answer(self, job, verdict, "");
        job->deadline_ns = NO_DEADLINE;
        /* No thread has it; the pending call finds nothing to do. */
        if (on_main)
            release(job);
        return;
    }
    job->tries = job->met = 0;
    if (job->breaking)
        return;
    job->breaking = true;
    job->verdict = verdict;
    job->deadline_ns = pb_clock_ns() + GRACE_NS;
}

void pb_jobs_interrupt(struct pb_self *self, const struct pb_client *client, uint32_t id)
{
    lock(self);
    for (int i = 0; i < PB_JOBS; i++) {
        struct pb_job *job = &self->server->jobs[i];

        if (job->state != PB_JOB_FREE && job->id == id && job->client_serial == client->serial)
            break_job(self, job, PB_WIRE_INTERRUPTED);
    }
    unlock(self);
    pb_gil_task_add(self, PB_GIL_TASK_INTERRUPT);
}

void pb_jobs_abandon(struct pb_self *self, const struct pb_client *client)
{
    bool any = false;

    lock(self);
    for (int i = 0; i < PB_JOBS; i++) {
        struct pb_job *job = &self->server->jobs[i];

        if (job->state == PB_JOB_FREE || job->client_serial != client->serial)
            continue;
        job->answered = true;
        break_job(self, job, PB_WIRE_INTERRUPTED);
        any = true;
    }
    unlock(self);
    if (any)
        pb_gil_task_add(self, PB_GIL_TASK_INTERRUPT);
}

void pb_jobs_break_all(struct pb_self *self)
{
    lock(self);
    for (int i = 0; i < PB_JOBS; i++)
        if (self->server->jobs[i].state != PB_JOB_FREE)
            break_job(self, &self->server->jobs[i], PB_WIRE_INTERRUPTED);
    unlock(self);
}

/*
 * The deadline of a job has passed, its first or its last. True: an exception must be thrown into
 * it. Called with self->lock held.
 */
static bool expire(struct pb_self *self, struct pb_job *job)
{
    if (job->breaking) {
        answer(self, job, job->verdict,
               "it is in a call that cannot be interrupted, and ends when that returns");
        job->deadline_ns = NO_DEADLINE;
        return false;
    }
    break_job(self, job, PB_WIRE_EXPIRED);
    return job->breaking;
}

int pb_jobs_tick(struct pb_self *self)
{
    uint64_t next = NO_DEADLINE, now = pb_clock_ns();
    bool to_throw = false;

    lock(self);
    for (int i = 0; i < PB_JOBS; i++) {
        struct pb_job *job = &self->server->jobs[i];

        if (job->state == PB_JOB_FREE)
            continue;
        if (now >= job->deadline_ns)
            to_throw |= expire(self, job);
        if (job->deadline_ns < next)
            next = job->deadline_ns;
    }
    unlock(self);
    if (to_throw)
        pb_gil_task_add(self, PB_GIL_TASK_INTERRUPT);
    if (next == NO_DEADLINE)
        return -1;
    return next <= now ? 0 : (int)((next - now) / MS) + 1;
}

bool pb_jobs_of(struct pb_self *self, const struct pb_client *client)
{
    bool any = false;

    lock(self);
    for (int i = 0; i < PB_JOBS; i++)
        any |= self->server->jobs[i].state != PB_JOB_FREE &&
               self->server->jobs[i].client_serial == client->serial;
    unlock(self);
    return any;
}

int pb_jobs_count(struct pb_self *self)
{
    int n = 0;

    lock(self);
    for (int i = 0; i < PB_JOBS; i++)
        n += self->server->jobs[i].state != PB_JOB_FREE;
    unlock(self);
    return n;
}

bool pb_jobs_was_thrown(struct pb_self *self, uint32_t number)
{
    bool thrown = false;

    lock(self);
    for (int i = 0; i < PB_JOBS; i++)
        thrown |= self->server->jobs[i].number == number && self->server->jobs[i].thrown;
    unlock(self);
    return thrown;
}

/* True: queued, or not wanted; false: no room now. Called with self->lock held. */
static bool print_piece(struct pb_self *self, uint32_t number, enum pb_wire_type type,
                        const char *data, size_t len)
{
    static const char cut[] = "\n[the output limit is reached (eval.output_limit); the rest is "
                              "dropped]\n";
    struct pb_job *job = NULL;
    struct pb_client *c;

    for (int i = 0; i < PB_JOBS && !job; i++)
        if (self->server->jobs[i].state != PB_JOB_FREE && self->server->jobs[i].number == number)
            job = &self->server->jobs[i];
    c = job && !job->answered ? client_of(self, job) : NULL;
    if (!c || job->printed > job->print_limit)
        return true;
    if (job->printed + len > job->print_limit) {
        type = PB_WIRE_ERR;
        data = cut;
        len = sizeof cut - 1;
    }
    if (!pb_outbox_put(&c->out, type, job->id, data, len, NULL, 0, PB_OUTBOX_RESERVE))
        return false;
    job->printed = data == cut ? job->print_limit + 1 : job->printed + len;
    return true;
}

void pb_jobs_print(struct pb_self *self, uint32_t number, enum pb_wire_type type,
                   const char *data, size_t len)
{
    while (len) {
        size_t piece = len < PB_WIRE_PIECE ? len : PB_WIRE_PIECE;
        bool taken;

        lock(self);
        taken = print_piece(self, number, type, data, piece);
        unlock(self);
        pb_self_wake(self);
        if (taken) {
            data += piece;
            len -= piece;
        } else {
            /* The tool is slow: others may have the GIL meanwhile. */
            void *state = self->py.PyEval_SaveThread();

            usleep(FULL_US);
            self->py.PyEval_RestoreThread(state);
        }
    }
}
