/* Jobs from their beginning to their end: on a thread of their own, or on the main thread. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent/arch/symver.h"
#include "agent/collectors/audit.h"
#include "agent/core/gil.h"
#include "agent/core/gil_tasks.h"
#include "agent/glue.h"
#include "agent/jobs.h"
#include "base/clock.h"

#define STACK (8 << 20)
#define MS 1000000ull
#define COMPLETE_NS (2000 * MS)

static void lock(struct pb_self *self)
{
    pthread_mutex_lock(&self->lock);
}

static void unlock(struct pb_self *self)
{
    pthread_mutex_unlock(&self->lock);
}

/* From now on the job may be interrupted. False when it is to end already. Takes self->lock. */
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

/* It may not be interrupted any more. Whether it was. Takes self->lock. */
static bool mark_ending(struct pb_self *self, struct pb_job *job, uint32_t number)
{
    bool interrupted = true; /* or reset by fork */

    lock(self);
    if (job->number == number) {
        job->state = PB_JOB_ENDING;
        interrupted = job->thrown;
    }
    unlock(self);
    /* One that was thrown but has not landed must not hit what comes after. */
    if (interrupted)
        self->py.PyThreadState_SetAsyncExc(self->py.PyThread_get_thread_ident(), NULL);
    return interrupted;
}

/* GIL held; the job was entered. */
static void evaluate(struct pb_self *self, struct pb_job *job, uint32_t number)
{
    enum pb_wire_result result = PB_WIRE_INTERRUPTED;
    bool interrupted = false;
    char why[256] = "";

    if (!pb_glue_load(self) || !pb_glue_begin(self, number)) {
        pb_jobs_finish(self, job, number, PB_WIRE_REFUSED,
                       "the agent's Python part does not run here");
        return;
    }
    if (to_running(self, job)) {
        result = pb_glue_run(self, job, why, sizeof why);
        interrupted = mark_ending(self, job, number);
    }
    pb_glue_end(self, !interrupted);
    pb_jobs_finish(self, job, number, result, why);
}

/*
 * A process that the code starts inherits the mask of its thread, and a signal
 * that the host has blocked to wait for it must not land here instead: so
 * signals are as in the main thread.
 */
static void copy_main_mask(void)
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
    void *state;

    prctl(PR_SET_NAME, "probing-eval");
    copy_main_mask();
    lock(self);
    number = job->number;
    deadline_ns = job->deadline_ns;
    unlock(self);
    if (!pb_gil_enter(self, deadline_ns, &state)) {
        pb_jobs_finish(self, job, number, self->finalizing ? PB_WIRE_REFUSED : PB_WIRE_NO_GIL,
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
        pb_jobs_finish(self, job, number, PB_WIRE_INTERRUPTED, "");
    pb_gil_leave(self, state);
    return NULL;
}

/* On the main thread, GIL held, between two instructions. */
static int run_on_main(void *arg)
{
    struct pb_self *self = pb_self();
    struct pb_job *first = NULL;
    uint32_t number = 0;
    bool raised;

    (void)arg;
    self->inside++;
    lock(self);
    for (int i = 0; i < PB_JOBS; i++) {
        struct pb_job *job = &self->server->jobs[i];

        if (job->state == PB_JOB_WAITING && job->how.flags & PB_WIRE_MAIN &&
            (!first || job->number < number)) {
            first = job;
            number = job->number;
        }
    }
    if (first)
        first->state = PB_JOB_ENTERED;
    unlock(self);
    if (first && !self->finalizing) {
        pb_gil_make_here(self); /* whoever interrupts the code has to enter */
        evaluate(self, first, number);
    }
    raised = first && pb_glue_raise_stray(self);
    self->inside--;
    return raised ? -1 : 0;
}

/* A free slot, or NULL. Called with self->lock held. */
static struct pb_job *free_slot(struct pb_self *self)
{
    for (int i = 0; i < PB_JOBS; i++)
        if (self->server->jobs[i].state == PB_JOB_FREE)
            return &self->server->jobs[i];
    return NULL;
}

/* Fills the slot from the client's message, whose memory goes over to it. */
static void fill(struct pb_self *self, struct pb_job *job, struct pb_client *client)
{
    size_t head = 0;

    *job = (struct pb_job){
        .state = PB_JOB_WAITING,
        .number = ++self->server->serial,
        .client = (int)(client - self->server->clients),
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
            pb_jobs_finish(self, job, number, PB_WIRE_REFUSED,
                           "the interpreter's queue of pending calls is full");
        else if (!pb_gil_pending_is_noticed(self))
            pb_gil_task_add(self, PB_GIL_TASK_YIELD);
    } else if (pb_self_thread(job_thread, job, STACK) < 0) {
        pb_jobs_finish(self, job, number, PB_WIRE_REFUSED, "no thread could be made");
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
