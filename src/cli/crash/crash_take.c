#include "cli/crash/crash_take.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/settings.h"
#include "cli/crash/crash_cause.h"
#include "host/os/crash_files.h"
#include "host/text/json.h"
#include "host/process/maps.h"
#include "host/process/mem.h"
#include "host/process/proc.h"
#include "host/os/signals.h"
#include "node/serve/serve.h"
#include "display/stack.h"

/* Yama lets us read once the process has named us, an instant after it started us. */
#define CONSENT_TRIES 200
#define CONSENT_NAP_NS 500000
#define SECONDS_MAX 20
#define NEAR_END (64u << 10)

static bool read_record(struct pb_crash_taken *t, uint64_t at)
{
    const struct timespec nap = {0, CONSENT_NAP_NS};
    struct pb_mem mem;

    pb_mem_init_process(&mem, t->pid);
    for (int i = 0; i < CONSENT_TRIES; i++) {
        if (pb_mem_get(&mem, at, &t->record, sizeof t->record))
            return memcmp(t->record.magic, PB_CRASH_MAGIC, sizeof t->record.magic) == 0 &&
                   t->record.version == PB_CRASH_VERSION && t->record.pid == t->pid;
        nanosleep(&nap, NULL);
    }
    return false;
}

static void read_exception(struct pb_crash_taken *t, struct pb_arena *a)
{
    struct pb_json *j = PB_NEW(a, struct pb_json);
    size_t len = t->record.text_len;
    struct pb_mem mem;
    char *text;

    if (t->record.kind != PB_CRASH_EXCEPTION || len > PB_CRASH_TEXT_MAX)
        return;
    text = pb_arena_alloc(a, len + 1);
    pb_mem_init_process(&mem, t->pid);
    if (pb_mem_get(&mem, t->record.text, text, len) && pb_json_parse(a, text, len, j, NULL) == 0 &&
        j->type == PB_J_OBJECT)
        t->exception = j;
}

/* The handler has taken the signal at a place where the stack ends. */
static bool is_overflown(const struct pb_crash_taken *t, const struct pb_regs *regs)
{
    uint64_t at = t->record.address, sp = regs->sp;
    struct pb_maps maps;
    const struct pb_map *map;
    bool end;

    if (t->record.signal != SIGSEGV || t->record.code <= 0 || at + NEAR_END < sp ||
        at > sp + NEAR_END || pb_maps_read(&maps, t->pid, NULL) < 0)
        return false;
    map = pb_maps_find(&maps, sp);
    /* Below a main thread's stack there is nothing, below another one's a guard. */
    end = !map || !map->read || sp - map->start < NEAR_END;
    pb_maps_finish(&maps);
    return end;
}

static struct pb_thread *find_thread(struct pb_snapshot *s, pid_t tid)
{
    for (size_t i = 0; s && i < s->nthreads; i++)
        if (s->threads[i].ns_tid == tid || s->threads[i].tid == tid)
            return &s->threads[i];
    return NULL;
}

static bool lives(pid_t pid)
{
    struct pb_proc_stat st;

    return pb_proc_stat(&st, pid, pid, NULL) == 0 && st.state != 'Z' && st.state != 'X';
}

/* Frames of an exception are those of its traceback: the stack itself has been left by then. */
static void use_traceback(struct pb_crash_taken *t, struct pb_arena *a)
{
    const struct pb_json *list = pb_json_get(t->exception, "frames");
    size_t n = list && list->type == PB_J_ARRAY ? list->n : 0;
    struct pb_frame *frames = PB_NEW_N(a, struct pb_frame, n + 1);

    for (size_t i = 0; i < n; i++) {
        const struct pb_json *j = &list->items[i], *names = pb_json_get(j, "locals");
        size_t nlocals = names && names->type == PB_J_OBJECT ? names->n : 0;

        frames[i] = (struct pb_frame){.depth = i,
                                      .func = pb_json_str(j, "func", "?"),
                                      .file = pb_json_str(j, "file", NULL),
                                      .lineno = (int)pb_json_whole(j, "lineno", 0),
                                      .col_offset = -1,
                                      .end_col_offset = -1,
                                      .locals = PB_NEW_N(a, struct pb_local, nlocals + 1),
                                      .nlocals = nlocals};
        for (size_t k = 0; k < nlocals; k++)
            frames[i].locals[k] = (struct pb_local){
                names->items[k].key, names->items[k].s ? names->items[k].s : "", false};
    }
    t->thread->frames = frames;
    t->thread->nframes = t->thread->total = n;
    t->thread->elided = 0;
}

static void write_cause(struct pb_crash_taken *t, struct pb_arena *a)
{
    const char *message;

    if (t->record.kind == PB_CRASH_SIGNAL) {
        t->cause = pb_arena_printf(a, "%s: %s", pb_signal_name(t->record.signal, a),
                                   pb_crash_why(&t->record, t->thread, t->overflown, a));
        return;
    }
    message = pb_json_str(t->exception, "message", "");
    t->cause = pb_arena_printf(a, "%s%s%.300s", pb_json_str(t->exception, "type", "exception"),
                               *message ? ": " : "", message);
}

static int write_report(struct pb_crash_taken *t, const char *data,
                        const struct pb_snapshot_opts *o, struct pb_arena *a, struct pb_err *err)
{
    struct pb_stack_process p = {.snapshot = t->snapshot};
    struct pb_buf out = PB_BUF_INIT;
    bool first = !t->id[0];
    int rc;

    if (first)
        pb_crash_id(t->id, t->record.wall_ns, t->pid);
    pb_crash_head(t, a, &out);
    pb_buf_putc(&out, '\n');
    if (t->snapshot)
        pb_stack_json(&out, &p, o);
    rc = first ? pb_crash_files_write(data, t->id, out.data, out.len, err)
               : pb_crash_files_replace(data, t->id, out.data, out.len, err);
    pb_buf_finish(&out);
    return rc;
}

/* A report of what is known by now. */
static int report(struct pb_crash_taken *t, const char *data, const struct pb_snapshot_opts *o,
                  struct pb_ctx *ctx)
{
    t->thread = find_thread(t->snapshot, t->record.tid);
    if (t->thread && t->exception)
        use_traceback(t, &ctx->arena);
    if (t->snapshot)
        pb_stack_mask(t->snapshot, &ctx->arena);
    write_cause(t, &ctx->arena);
    pb_crash_torch(t);
    t->read_ms = (double)(pb_clock_ns() - t->began_ns) / 1e6;
    return write_report(t, data, o, &ctx->arena, &ctx->err);
}

/*
 * Python's side first: it is quick and says which line. Names of C functions can take long where
 * libraries are large, and the process goes on when its time is up.
 */
static int read_and_report(struct pb_crash_taken *t, const char *data,
                           const struct pb_snapshot_opts *o, struct pb_ctx *ctx)
{
    struct pb_snapshot_opts quick = *o;
    struct pb_target *target = NULL;
    struct pb_snapshot *first = PB_NEW(&ctx->arena, struct pb_snapshot);
    struct pb_snapshot *full = PB_NEW(&ctx->arena, struct pb_snapshot);
    struct pb_err err = {0};
    int rc;

    quick.native = false;
    if (pb_target_open(&target, t->pid, NULL, &err) < 0 ||
        pb_target_snapshot(target, &quick, &ctx->arena, first, &err) < 0)
        t->trouble = pb_arena_strdup(&ctx->arena, err.msg);
    else
        t->snapshot = first;
    rc = report(t, data, o, ctx);
    if (target && pb_target_snapshot(target, o, &ctx->arena, full, &err) == 0 && lives(t->pid)) {
        t->snapshot = full;
        t->trouble = NULL;
        rc = report(t, data, o, ctx);
    }
    pb_target_close(target);
    return rc;
}

/* Where the user of that process keeps things, unless whoever armed it has said so. */
static void take_environment(struct pb_crash_taken *t, struct pb_arena *a)
{
    static const char *const names[] = {"PROBING_HOME", "XDG_DATA_HOME", "HOME",
                                        "PROBING_RETENTION_DAYS"};

    t->environ = pb_proc_read(t->pid, "environ", a, &t->environ_len);
    for (size_t i = 0; t->environ && i < sizeof names / sizeof *names; i++) {
        const char *value = pb_proc_getenv(t->environ, t->environ_len, names[i]);

        if (value)
            setenv(names[i], value, 0);
    }
}

/* The agent asks as the process itself does. Files are named by that process: nobody else writes
   them in its name. */
static bool is_own(pid_t pid)
{
    struct pb_proc_status st;

    return pid > 0 && pb_proc_status(&st, pid, NULL) == 0 && st.uid == getuid() &&
           st.euid == geteuid();
}

static void say_done(void)
{
    ssize_t n = write(PB_CRASH_ACK_FD, "r", 1);

    (void)n;
    close(PB_CRASH_ACK_FD);
}

/* Registers at the signal, where there was one. */
static void use_registers(struct pb_crash_taken *t, struct pb_snapshot_opts *o,
                          struct pb_capture_at *at)
{
    if (t->record.kind != PB_CRASH_SIGNAL || t->record.reg_bytes > sizeof t->record.regs ||
        !pb_regs_from_prstatus(&at->regs, t->record.regs, t->record.reg_bytes))
        return;
    at->tid = t->record.tid;
    o->at = at;
    t->overflown = is_overflown(t, &at->regs);
}

int pb_crash_take(struct pb_ctx *ctx, const char *what)
{
    struct pb_crash_taken t = {.pid = (pid_t)strtol(what, NULL, 10), .began_ns = pb_clock_ns()};
    struct pb_capture_at at = {0};
    struct pb_snapshot_opts o = {.all = true, .locals = true, .native = true, .max_frames = 200};
    const char *colon = strchr(what, ':'), *days;
    char data[4096];
    sigset_t none;
    int rc;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    alarm(SECONDS_MAX);
    if (!is_own(t.pid) || !colon || !read_record(&t, strtoull(colon + 1, NULL, 16)))
        return pb_err_set(&ctx->err, PB_FAIL, "no crash to be read at %s", what);
    take_environment(&t, &ctx->arena);
    if (pb_serve_data_dir(data, sizeof data, &ctx->err) < 0)
        return -1;
    pb_crash_facts(&t, &ctx->arena);
    read_exception(&t, &ctx->arena);
    use_registers(&t, &o, &at);
    rc = read_and_report(&t, data, &o, ctx);
    say_done();
    days = getenv("PROBING_RETENTION_DAYS");
    pb_crash_files_tidy(data, days ? atoll(days)
                                   : pb_setting_list[PB_SET_RETENTION_DAYS].default_value);
    pb_buf_finish(&t.facts);
    return rc;
}
