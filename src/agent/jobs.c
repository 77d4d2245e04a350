#include "agent/jobs.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent/arch/symver.h"
#include "agent/chores.h"
#include "agent/collect/audit.h"
#include "agent/glue.h"
#include "agent/outbox.h"
#include "agent/pages.h"
#include "agent/py/gil.h"
#include "base/clock.h"

#define STACK (8 << 20)
#define MS 1000000ull
/* After the interrupt: how long code gets to end before it is left alone. */
#define GRACE_NS (1000 * MS)
#define COMPLETE_NS (2000 * MS)
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

/* Under lock. NULL when the client left. */
static struct pb_client *client_of(struct pb_self *self, const struct pb_job *job)
{
    struct pb_client *c = &self->clients[job->client];

    return c->fd >= 0 && c->serial == job->client_serial && !c->gone ? c : NULL;
}

/* Under lock. */
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

/* Under lock. */
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

/* Under lock: the client hears how it ended, once. */
static void answer(struct pb_self *self, struct pb_job *job, enum pb_wire_result result,
                   const char *why)
{
    struct pb_client *c = client_of(self, job);

    audit(self, job, result);
    if (!job->answered && c)
        put_done(c, job->id, result, why);
    job->answered = true;
}

/* Under lock. */
static void release(struct pb_job *job)
{
    pb_pages_free(job->map, job->map_size);
    *job = (struct pb_job){.state = PB_JOB_FREE};
}

/* The evaluating thread is done with the job, which may have been reset by fork meanwhile. */
static void finish(struct pb_self *self, struct pb_job *job, uint32_t number,
                   enum pb_wire_result result, const char *why)
{
    lock(self);
    if (job->number == number && job->state != PB_JOB_FREE) {
        if (result == PB_WIRE_INTERRUPTED)
            result = job->breaking ? job->verdict : PB_WIRE_EXCEPTION;
        answer(self, job, result, why);
        release(job);
        self->served++;
    }
    unlock(self);
    pb_self_wake(self);
}

/* Under lock: from now on it may be interrupted. False when it is to end already. */
static bool to_running(struct pb_self *self, struct pb_job *job)
{
    bool wanted;

    lock(self);
    wanted = !job->answered && !job->breaking;
    if (wanted) {
        job->ident = self->py.PyThread_get_thread_ident();
        job->state = PB_JOB_RUNNING;
    }
    unlock(self);
    return wanted;
}

static void to_ending(struct pb_self *self, struct pb_job *job, uint32_t number)
{
    lock(self);
    if (job->number == number)
        job->state = PB_JOB_ENDING;
    unlock(self);
    /* One that was thrown but has not landed must not hit what comes after. */
    self->py.PyThreadState_SetAsyncExc(self->py.PyThread_get_thread_ident(), NULL);
}

/* GIL held; the job was entered. */
static void evaluate(struct pb_self *self, struct pb_job *job, uint32_t number)
{
    enum pb_wire_result result = PB_WIRE_INTERRUPTED;
    char why[256] = "";

    if (!pb_glue_load(self) || !pb_glue_begin(self, number)) {
        finish(self, job, number, PB_WIRE_REFUSED, "the agent's Python part does not run here");
        return;
    }
    if (to_running(self, job)) {
        result = pb_glue_run(self, job, why, sizeof why);
        to_ending(self, job, number);
    }
    pb_glue_end(self);
    finish(self, job, number, result, why);
}

/*
 * A process that the code starts inherits the mask of its thread, and a signal
 * that the host has blocked to wait for it must not land here instead: so
 * signals are as in the main thread.
 */
static void take_main_mask(void)
{
    unsigned long long mask = 0;
    char path[48], text[4096], *p;
    sigset_t set;
    ssize_t n;
    int fd;

    snprintf(path, sizeof path, "/proc/self/task/%d/status", (int)getpid());
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    p = strstr(text, "\nSigBlk:");
    if (!p)
        return;
    for (p += 8; *p == '\t' || *p == ' '; p++)
        continue;
    for (; (*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'f'); p++)
        mask = mask * 16 + (unsigned long long)(*p <= '9' ? *p - '0' : *p - 'a' + 10);
    sigemptyset(&set);
    memcpy(&set, &mask, sizeof mask);
    pthread_sigmask(SIG_SETMASK, &set, NULL);
}

static void *job_thread(void *arg)
{
    struct pb_self *self = pb_self();
    struct pb_job *job = arg;
    uint64_t deadline_ns;
    uint32_t number;
    bool wanted;
    int token;

    prctl(PR_SET_NAME, "probing-eval");
    take_main_mask();
    lock(self);
    number = job->number;
    deadline_ns = job->deadline_ns;
    unlock(self);
    if (!pb_gil_enter(self, deadline_ns, &token)) {
        finish(self, job, number, self->finalizing ? PB_WIRE_REFUSED : PB_WIRE_NO_GIL,
               pb_gil_why_not(self));
        return NULL;
    }
    lock(self);
    wanted = job->number == number && !job->answered;
    if (wanted)
        job->state = PB_JOB_ENTERED;
    unlock(self);
    if (wanted)
        evaluate(self, job, number);
    else
        finish(self, job, number, PB_WIRE_INTERRUPTED, "");
    pb_gil_leave(self, token);
    return NULL;
}

/* On the main thread, GIL held, between two instructions. */
static int run_on_main(void *arg)
{
    struct pb_self *self = pb_self();
    struct pb_job *first = NULL;
    uint32_t number = 0;

    (void)arg;
    self->inside++;
    lock(self);
    for (int i = 0; i < PB_JOBS; i++) {
        struct pb_job *job = &self->jobs[i];

        if (job->state == PB_JOB_WAITING && job->how.flags & PB_WIRE_MAIN &&
            (!first || job->number < number)) {
            first = job;
            number = job->number;
        }
    }
    if (first)
        first->state = PB_JOB_ENTERED;
    unlock(self);
    if (first && !self->finalizing)
        evaluate(self, first, number);
    self->inside--;
    return 0;
}

/* Under lock. */
static struct pb_job *free_slot(struct pb_self *self)
{
    for (int i = 0; i < PB_JOBS; i++)
        if (self->jobs[i].state == PB_JOB_FREE)
            return &self->jobs[i];
    return NULL;
}

/* Fills the slot from the client's message, whose memory goes over to it. */
static void fill(struct pb_self *self, struct pb_job *job, struct pb_client *client)
{
    size_t head = 0;

    *job = (struct pb_job){
        .state = PB_JOB_WAITING,
        .number = ++self->serial,
        .client = (int)(client - self->clients),
        .client_serial = client->serial,
        .id = client->in.head.id,
        .complete = client->in.head.type == PB_WIRE_COMPLETE,
        .map = client->in.body,
        .map_size = client->body_size,
        .print_limit = (uint64_t)pb_self_setting(self, PB_SET_EVAL_OUTPUT_LIMIT) << 20,
        .deadline_ns = pb_clock_ns(),
        .asked_wall_ns = pb_clock_wall_ns(),
        .peer_uid = client->uid,
        .peer_pid = client->pid,
    };
    memcpy(job->peer_name, client->name, sizeof job->peer_name);
    job->asked_ns = job->deadline_ns;
    if (job->complete) {
        job->deadline_ns += COMPLETE_NS;
    } else {
        memcpy(&job->how, client->in.body, sizeof job->how);
        head = sizeof job->how;
        job->deadline_ns += MS * (job->how.timeout_ms
                                      ? job->how.timeout_ms
                                      : (uint64_t)pb_self_setting(self, PB_SET_EVAL_TIMEOUT));
        if (job->how.flags & PB_WIRE_OWN)
            job->print_limit = UINT64_MAX; /* the tool limits what it takes */
        client->has_session |= (job->how.flags & PB_WIRE_REPL) != 0;
    }
    job->code = (const char *)client->in.body + head;
    job->code_len = client->in.head.len - head;
    if (job->how.flags & PB_WIRE_NAMED) {
        job->frame_name = job->code;
        job->frame_name_len = strnlen(job->code, job->code_len);
        job->code += job->frame_name_len + 1;
        job->code_len -= job->frame_name_len + 1;
    }
    client->in.body = NULL;
    client->body_size = 0;
}

static void launch(struct pb_self *self, struct pb_job *job, uint32_t number)
{
    if (job->how.flags & PB_WIRE_MAIN) {
        if (!pb_gil_add_pending(self, run_on_main))
            finish(self, job, number, PB_WIRE_REFUSED,
                   "the interpreter's queue of pending calls is full");
        else if (!pb_gil_pending_is_noticed(self))
            pb_chores_add(self, PB_CHORE_NUDGE);
    } else if (pb_self_thread(job_thread, job, STACK) < 0) {
        finish(self, job, number, PB_WIRE_REFUSED, "no thread could be made");
    }
}

/* A name that is promised ends before the message does. */
static bool is_named_well(const struct pb_client *client, const struct pb_wire_eval *how)
{
    size_t head = sizeof *how;

    return !(how->flags & PB_WIRE_NAMED) ||
           (how->flags & PB_WIRE_FRAME &&
            memchr(client->in.body + head, '\0', client->in.head.len - head));
}

void pb_jobs_start(struct pb_self *self, struct pb_client *client)
{
    struct pb_job *job;
    struct pb_wire_eval how = {0};
    const char *wrong = NULL;
    uint32_t number = 0;

    if (client->in.head.type == PB_WIRE_EVAL)
        memcpy(&how, client->in.body, sizeof how);
    if (how.flags & ~(uint32_t)PB_WIRE_FLAGS || how.frame < 0 || how.tid < 0 ||
        how.timeout_ms > 86400000u || !is_named_well(client, &how))
        wrong = "a field of the request is out of range";
    else if (self->finalizing)
        wrong = "the interpreter is ending";
    pb_audit_prepare(self);
    lock(self);
    job = wrong ? NULL : free_slot(self);
    if (job) {
        fill(self, job, client);
        number = job->number;
    }
    unlock(self);
    if (job)
        launch(self, job, number);
    else
        pb_jobs_answer(self, client, client->in.head.id, PB_WIRE_REFUSED,
                       wrong ? wrong : "too many evaluations at once (16 are running)");
}

/* Under lock: what waits is answered at once, what runs is interrupted. */
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
        struct pb_job *job = &self->jobs[i];

        if (job->state != PB_JOB_FREE && job->id == id && job->client_serial == client->serial)
            break_job(self, job, PB_WIRE_INTERRUPTED);
    }
    unlock(self);
    pb_chores_add(self, PB_CHORE_THROW);
}

void pb_jobs_abandon(struct pb_self *self, const struct pb_client *client)
{
    bool any = false;

    lock(self);
    for (int i = 0; i < PB_JOBS; i++) {
        struct pb_job *job = &self->jobs[i];

        if (job->state == PB_JOB_FREE || job->client_serial != client->serial)
            continue;
        job->answered = true;
        break_job(self, job, PB_WIRE_INTERRUPTED);
        any = true;
    }
    unlock(self);
    if (any)
        pb_chores_add(self, PB_CHORE_THROW);
}

void pb_jobs_break_all(struct pb_self *self)
{
    lock(self);
    for (int i = 0; i < PB_JOBS; i++)
        if (self->jobs[i].state != PB_JOB_FREE)
            break_job(self, &self->jobs[i], PB_WIRE_INTERRUPTED);
    unlock(self);
}

/* Under lock: the deadline of a job has come, its first or its last. */
static bool overdue(struct pb_self *self, struct pb_job *job)
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
        struct pb_job *job = &self->jobs[i];

        if (job->state == PB_JOB_FREE)
            continue;
        if (now >= job->deadline_ns)
            to_throw |= overdue(self, job);
        if (job->deadline_ns < next)
            next = job->deadline_ns;
    }
    unlock(self);
    if (to_throw)
        pb_chores_add(self, PB_CHORE_THROW);
    if (next == NO_DEADLINE)
        return -1;
    return next <= now ? 0 : (int)((next - now) / MS) + 1;
}

bool pb_jobs_of(struct pb_self *self, const struct pb_client *client)
{
    bool any = false;

    lock(self);
    for (int i = 0; i < PB_JOBS; i++)
        any |= self->jobs[i].state != PB_JOB_FREE &&
               self->jobs[i].client_serial == client->serial;
    unlock(self);
    return any;
}

int pb_jobs_count(struct pb_self *self)
{
    int n = 0;

    lock(self);
    for (int i = 0; i < PB_JOBS; i++)
        n += self->jobs[i].state != PB_JOB_FREE;
    unlock(self);
    return n;
}

void pb_jobs_throw(struct pb_self *self)
{
    lock(self);
    for (int i = 0; i < PB_JOBS; i++) {
        struct pb_job *job = &self->jobs[i];

        if (job->state != PB_JOB_RUNNING || !job->breaking || job->thrown)
            continue;
        job->thrown = true;
        self->py.PyThreadState_SetAsyncExc(job->ident, *self->py.PyExc_KeyboardInterrupt);
    }
    unlock(self);
}

/* Under lock. 1: taken or not wanted; 0: no room now. */
static bool print_piece(struct pb_self *self, uint32_t number, enum pb_wire_type type,
                        const char *data, size_t len)
{
    static const char cut[] = "\n[the output limit is reached (eval.output_limit); the rest is "
                              "dropped]\n";
    struct pb_job *job = NULL;
    struct pb_client *c;

    for (int i = 0; i < PB_JOBS && !job; i++)
        if (self->jobs[i].state != PB_JOB_FREE && self->jobs[i].number == number)
            job = &self->jobs[i];
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
