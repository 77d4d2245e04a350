/*
 * python.waits - what each Python thread waits for, since when, and who would have to act.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/process/proc.h"
#include "host/process/rank.h"
#include "node/tables/read/common.h"
#include "node/waits/waits.h"

static pb_live_fill fill;

#define COLUMNS(X)                                                                                 \
    X(tid, INT, "", "thread id")                                                                   \
    X(thread, NAME, "", "the thread's name")                                                       \
    X(is_main, BOOL, "", "the process's first thread")                                             \
    X(kind, NAME, "", "running, or what it waits for: collective, lock, gil, pipe, socket, …")     \
    X(what, TEXT, "", "what the thread waits for, in words")                                       \
    X(on_pid, INT, "", "process that would have to act")                                           \
    X(on_tid, INT, "", "thread that would have to act, where it is known")                         \
    X(inferred, BOOL, "", "whom it waits for is taken from what the other threads do")             \
    X(root_pid, INT, "", "process at the end of the chain of waits; itself where there is none")   \
    X(root_tid, INT, "", "thread at the end of the chain of waits")                                \
    X(root_kind, NAME, "", "what the thread at the end of the chain of waits waits for")           \
    X(cycle, BOOL, "", "the chain of waits comes back to this thread")                             \
    X(circle, INT, "", "smallest thread id of those in the same circle of waits")                  \
    X(alone, BOOL, "", "nobody else has the other end of what it reads or writes")                 \
    X(asked, BOOL, "", "spoke last on a TCP connection: an answer is due; NULL: unknown")          \
    X(outside, BOOL, "", "may be ended from elsewhere: a client, a terminal, another machine")     \
    X(timed, BOOL, "", "the wait ends by itself some day")                                         \
    X(left_ms, REAL, "ms", "a sleep: how long it still lasts")                                     \
    X(stalled_ms, REAL, "ms", "since the thread last ran, by the kernel")                          \
    X(same_ms, REAL, "ms", "seen in the same expression in all looks since")                       \
    X(shape_ms, REAL, "ms", "seen in the same calls in all looks since, whatever the line")        \
    X(news_ms, REAL, "ms", "since its own code was in a state not seen in the samples before")     \
    X(top_share, REAL, "", "part of the samples in which its own code itself ran, not a library")  \
    X(samples, INT, "", "samples of its own code: functions that run, with their variables")       \
    X(states, INT, "", "how many of the samples differ: few where a loop comes to nothing")        \
    X(idles, BOOL, "", "wakes up now and then, to the same sleep with the same variables")         \
    X(on_idle_ms, REAL, "ms", "since on_pid, or a process that it started, last ran")              \
    X(cpu_pct, REAL, "%", "of a core since the look before; NULL at the first")                    \
    X(looks, INT, "", "how often the thread was looked at, at most a minute apart")                \
    X(glances, INT, "", "how often a main thread that goes on was met, a few times a look")        \
    X(glances_comm, INT, "", "in how many of the glances it waited between ranks")                 \
    X(busy_func, NAME, "", "function of its own code met in most glances without such a wait")     \
    X(busy_file, NAME, "", "source file of busy_func")                                             \
    X(busy_line, INT, "", "line of busy_func")                                                     \
    X(busy_glances, INT, "", "how often it was met in busy_func")                                  \
    X(work_func, NAME, "", "function of its own code met most while in no system call")            \
    X(work_file, NAME, "", "source file of work_func")                                             \
    X(work_line, INT, "", "line of work_func")                                                     \
    X(trains, BOOL, "", "met in a model, backward pass or optimizer, or with a loss")              \
    X(phase, NAME, "", "what libraries it was met in most are for: data, logging, …; own: none")   \
    X(aside_glances, INT, "", "how often met at data, checkpoints, logs, code beside the model")   \
    X(phase_glances, INT, "", "how often it was met in the phase")                                 \
    X(phase_turns, INT, "", "how often it came to the phase from another")                         \
    X(phase_func, NAME, "", "function of its own code met most in the phase")                      \
    X(phase_file, NAME, "", "source file of phase_func")                                           \
    X(phase_line, INT, "", "line of phase_func")                                                   \
    X(import_ms, REAL, "ms", "since it was last met in an import; NULL: never")                    \
    X(loss, REAL, "", "last value seen of a variable that is named as a loss")                     \
    X(first_loss, REAL, "", "first finite value seen of that variable")                            \
    X(losses, INT, "", "how many values of that variable were seen")                               \
    X(loss_changes, INT, "", "how often it was another value than at the glance before")           \
    X(bad_losses, INT, "", "last values in a row that are infinite or not a number")               \
    X(holds_gil, BOOL, "", "the thread holds the GIL")                                             \
    X(collecting_garbage, BOOL, "", "the thread collects garbage (3.7 and later)")                 \
    X(func, NAME, "", "innermost function of the program's own code")                              \
    X(file, NAME, "", "source file of func")                                                       \
    X(line, INT, "", "line of func that is being executed")                                        \
    X(top_func, NAME, "", "innermost Python function")                                             \
    X(top_file, NAME, "", "source file of top_func")                                               \
    X(native, NAME, "", "innermost C function above top_func that has a name")                     \
    X(module, NAME, "", "library of the C function")                                               \
    X(threads, INT, "", "threads of the process, those without Python as well")                    \
    X(state, NAME, "", "state of the process, as the kernel has it: R, S, D, T, t")                \
    X(ppid, INT, "", "parent of the process")                                                      \
    X(forked, BOOL, "", "the process is a copy of its parent: fork without exec")                  \
    X(handles_signals, BOOL, "", "handler for SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 or SIGALRM")       \
    X(job, NAME, "", "job that the rank belongs to: its master's address")                         \
    X(world, INT, "", "ranks of the job")                                                          \
    X(local_world, INT, "", "ranks of the job on this machine")                                    \
    X(unserved_ms, REAL, "ms", "main thread was ready without a CPU since it began")               \
    X(cpus, INT, "", "processors that the main thread may use")                                    \
    PB_LIVE_COMMON(X)

PB_TABLE_COLUMNS(COLUMNS);

const struct pb_live pb_live_python_waits = {
    PB_TABLE_SPEC("python.waits",
                  "what each Python thread waits for, now: whom, since when, and the root of it"),
    .fill = fill,
};

/* What is said of a process once. */
struct about {
    struct pb_proc_stat stat;
    char job[160];
    int64_t world, local_world, cpus;
    bool forked, handles_signals;
    double unserved_ms; /* -1: not known */
};

static int64_t number_in(const char *env, size_t len, const char *name)
{
    const char *v = pb_proc_getenv(env, len, name);
    long n = v ? strtol(v, NULL, 10) : 0;

    return n > 0 && n < 10000000 ? n : -1;
}

/* -1 where there are more than a set of them has room for. */
static int64_t count_cpus(pid_t pid)
{
    cpu_set_t set;

    return sched_getaffinity(pid, sizeof set, &set) == 0 ? CPU_COUNT(&set) : -1;
}

/* What stops services, or tells them to load something anew. */
static bool has_handler(pid_t pid)
{
    static const int signals[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM};
    struct pb_proc_status status;
    struct pb_err ignored = {0};
    bool any = false;

    if (pb_proc_status(&status, pid, &ignored) < 0)
        return false;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        any = any || (status.caught >> (signals[i] - 1) & 1);
    return any;
}

static double find_unserved(pid_t pid, struct pb_arena *a)
{
    unsigned long long ran, waited;
    size_t len;
    char *text = pb_proc_read(pid, "schedstat", a, &len);

    return text && sscanf(text, "%llu %llu", &ran, &waited) == 2 ? (double)waited / 1e6 : -1;
}

static void learn(const struct pb_wait_process *p, struct pb_arena *a, struct about *ret)
{
    struct pb_err ignored = {0};
    size_t len = 0, mine = 0, parents = 0;
    char *env = pb_proc_read(p->pid, "environ", a, &len);
    const char *own, *parent;

    *ret = (struct about){.world = -1, .local_world = -1, .cpus = count_cpus(p->pid),
                            .handles_signals = has_handler(p->pid),
                            .unserved_ms = find_unserved(p->pid, a)};
    pb_proc_stat(&ret->stat, p->pid, 0, &ignored);
    own = pb_proc_read(p->pid, "cmdline", a, &mine);
    parent = ret->stat.ppid > 0 ? pb_proc_read(ret->stat.ppid, "cmdline", a, &parents) : NULL;
    ret->forked = own && parent && mine == parents && memcmp(own, parent, mine) == 0;
    if (!env)
        return;
    ret->world = number_in(env, len, "WORLD_SIZE");
    ret->local_world = number_in(env, len, "LOCAL_WORLD_SIZE");
    if (pb_proc_getenv(env, len, "MASTER_PORT"))
        snprintf(ret->job, sizeof ret->job, "%.100s:%.20s",
                 pb_proc_getenv(env, len, "MASTER_ADDR") ? pb_proc_getenv(env, len, "MASTER_ADDR")
                                                         : "",
                 pb_proc_getenv(env, len, "MASTER_PORT"));
}

static void set_frame(struct pb_rows *rows, struct pb_row_cell *row, const struct pb_wait *w)
{
    const struct pb_thread *t = w->thread;

    if (w->user) {
        pb_rows_text(rows, row, AT_func, w->user->func);
        pb_rows_text(rows, row, AT_file, w->user->file);
        if (w->user->lineno > 0)
            pb_rows_int(row, AT_line, w->user->lineno);
    }
    if (w->top) {
        pb_rows_text(rows, row, AT_top_func, w->top->func);
        pb_rows_text(rows, row, AT_top_file, w->top->file);
    }
    for (size_t i = 0; i < t->nframes && t->frames[i].native; i++)
        if (t->frames[i].func) {
            pb_rows_text(rows, row, AT_native, t->frames[i].func);
            pb_rows_text(rows, row, AT_module, t->frames[i].module);
            return;
        }
}

static void set_graph(struct pb_rows *rows, struct pb_row_cell *row, const struct pb_wait *w)
{
    if (w->on_pid)
        pb_rows_int(row, AT_on_pid, w->on_pid);
    if (w->on_tid)
        pb_rows_int(row, AT_on_tid, w->on_tid);
    pb_rows_bool(row, AT_inferred, w->inferred);
    pb_rows_int(row, AT_root_pid, w->root->process->pid);
    pb_rows_int(row, AT_root_tid, w->root->thread->tid);
    pb_rows_text(rows, row, AT_root_kind, pb_wait_name(w->root->kind));
    pb_rows_bool(row, AT_cycle, w->circle != 0);
    if (w->circle)
        pb_rows_int(row, AT_circle, w->circle);
    pb_rows_bool(row, AT_alone, w->alone);
    if (w->spoke)
        pb_rows_bool(row, AT_asked, w->asked);
    pb_rows_bool(row, AT_outside, w->outside);
    pb_rows_bool(row, AT_timed, w->timed);
    if (w->left_ms >= 0)
        pb_rows_real(row, AT_left_ms, w->left_ms);
}

static void set_times(struct pb_row_cell *row, const struct pb_wait *w)
{
    pb_rows_real(row, AT_stalled_ms, w->stalled_ms);
    pb_rows_real(row, AT_same_ms, w->same_ms);
    pb_rows_real(row, AT_shape_ms, w->shape_ms);
    pb_rows_real(row, AT_news_ms, w->news_ms);
    if (w->samples) {
        pb_rows_real(row, AT_top_share, w->top_share);
        pb_rows_int(row, AT_samples, w->samples);
        pb_rows_int(row, AT_states, w->states);
    }
    pb_rows_bool(row, AT_idles, w->idles);
    if (w->on_idle_ms >= 0)
        pb_rows_real(row, AT_on_idle_ms, w->on_idle_ms);
    if (w->cpu_pct >= 0)
        pb_rows_real(row, AT_cpu_pct, w->cpu_pct);
    pb_rows_int(row, AT_looks, w->looks);
}

static void set_loss(struct pb_row_cell *row, const struct pb_loss *l)
{
    if (!l->n)
        return;
    pb_rows_real(row, AT_loss, l->last);
    if (l->finite)
        pb_rows_real(row, AT_first_loss, l->first);
    pb_rows_int(row, AT_losses, l->n);
    pb_rows_int(row, AT_loss_changes, l->changes);
    pb_rows_int(row, AT_bad_losses, l->bad);
}

static void set_busy(struct pb_rows *rows, struct pb_row_cell *row, const struct pb_wait *w)
{
    if (!w->glances)
        return;
    pb_rows_int(row, AT_glances, w->glances);
    pb_rows_int(row, AT_glances_comm, w->glances_comm);
    pb_rows_bool(row, AT_trains, w->trains);
    pb_rows_text(rows, row, AT_phase, pb_phase_name(w->phase));
    pb_rows_int(row, AT_aside_glances, w->aside_glances);
    pb_rows_int(row, AT_phase_glances, w->phase_glances);
    pb_rows_int(row, AT_phase_turns, w->phase_turns);
    if (w->import_ms >= 0)
        pb_rows_real(row, AT_import_ms, w->import_ms);
    set_loss(row, &w->loss);
    if (w->phase_at.n) {
        pb_rows_text(rows, row, AT_phase_func, w->phase_at.func);
        pb_rows_text(rows, row, AT_phase_file, w->phase_at.file);
        pb_rows_int(row, AT_phase_line, w->phase_at.line);
    }
    if (w->work.ran) {
        pb_rows_text(rows, row, AT_work_func, w->work.func);
        pb_rows_text(rows, row, AT_work_file, w->work.file);
        pb_rows_int(row, AT_work_line, w->work.line);
    }
    if (!w->busy.n)
        return;
    pb_rows_text(rows, row, AT_busy_func, w->busy.func);
    pb_rows_text(rows, row, AT_busy_file, w->busy.file);
    pb_rows_int(row, AT_busy_line, w->busy.line);
    pb_rows_int(row, AT_busy_glances, w->busy.n);
}

static void set_process(struct pb_rows *rows, struct pb_row_cell *row, const struct about *p)
{
    const char state[2] = {p->stat.state, '\0'};

    pb_rows_int(row, AT_threads, p->stat.threads);
    pb_rows_text(rows, row, AT_state, state);
    pb_rows_int(row, AT_ppid, p->stat.ppid);
    pb_rows_bool(row, AT_forked, p->forked);
    pb_rows_bool(row, AT_handles_signals, p->handles_signals);
    if (p->job[0])
        pb_rows_text(rows, row, AT_job, p->job);
    if (p->world > 0)
        pb_rows_int(row, AT_world, p->world);
    if (p->local_world > 0)
        pb_rows_int(row, AT_local_world, p->local_world);
    if (p->unserved_ms >= 0)
        pb_rows_real(row, AT_unserved_ms, p->unserved_ms);
    if (p->cpus > 0)
        pb_rows_int(row, AT_cpus, p->cpus);
}

/* A caller who may see some processes only learns nothing of others. */
static void look(struct pb_node *n, const struct pb_scope *scope, struct pb_wait_set *ret)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_live_process *v = NULL;
    size_t count = pb_live_processes(n, scope, true, &a, &v);
    struct pb_wait_process *processes = PB_NEW_N(&a, struct pb_wait_process, count + 1);
    struct pb_wait_question q = {.processes = processes, .n = count, .stacks = n->stacks,
                                 .pythons = scope->bounded ? NULL : n->pythons,
                                 .looks = n->looks};

    for (size_t i = 0; i < count; i++)
        processes[i] = (struct pb_wait_process){v[i].pid, v[i].start, v[i].rank};
    pb_waits_read(&q, ret);
    pb_arena_finish(&a);
}

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err)
{
    struct pb_wait_set set;
    struct about about = {.world = -1};
    const struct pb_wait_process *last = NULL;

    (void)wanted;
    (void)err;
    look(n, scope, &set);
    for (size_t i = 0; i < set.n; i++) {
        const struct pb_wait *w = &set.v[i];
        struct pb_row_cell *row = pb_rows_add(rows);

        if (w->process != last)
            learn(w->process, &set.arena, &about);
        last = w->process;
        pb_rows_int(row, AT_tid, w->thread->tid);
        pb_rows_text(rows, row, AT_thread, w->thread->name);
        pb_rows_bool(row, AT_is_main, w->thread->is_main);
        pb_rows_text(rows, row, AT_kind, pb_wait_name(w->kind));
        pb_rows_text(rows, row, AT_what, w->what);
        pb_rows_bool(row, AT_holds_gil, w->thread->holds_gil);
        pb_rows_bool(row, AT_collecting_garbage, w->thread->collecting);
        set_graph(rows, row, w);
        set_times(row, w);
        set_busy(rows, row, w);
        set_frame(rows, row, w);
        set_process(rows, row, &about);
        pb_live_common(rows, row, n->host, w->process->pid, w->process->rank);
    }
    pb_waits_finish(&set);
    return 0;
}
