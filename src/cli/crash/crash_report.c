/* The first line of a report: everything but the stacks. */
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "cli/crash/crash_cause.h"
#include "cli/crash/crash_home.h"
#include "cli/crash/crash_take.h"
#include "host/text/json.h"
#include "host/text/json_write.h"
#include "host/os/kernel_log.h"
#include "host/process/proc.h"
#include "host/process/rank.h"
#include "host/text/secret.h"
#include "host/os/signals.h"
#include "store/format.h"

#define LINES_MAX 8

static void add_text(struct pb_buf *out, const char *key, const char *value)
{
    pb_json_key(out, key);
    pb_json_string_or_null(out, value);
}

static void add_int(struct pb_buf *out, const char *key, int64_t value, bool known)
{
    pb_json_key(out, key);
    if (known)
        pb_json_int(out, value);
    else
        pb_buf_puts(out, "null");
}

static void add_time(struct pb_buf *out, int64_t wall_ns)
{
    time_t seconds = (time_t)(wall_ns / 1000000000);
    char text[40];
    struct tm tm;
    size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &tm));

    pb_json_key(out, "time");
    pb_buf_printf(out, "\"%.*s.%03dZ\"", (int)n, text, (int)(wall_ns / 1000000 % 1000));
    add_int(out, "time_ns", wall_ns, true);
}

static void add_process(const struct pb_crash_taken *t, struct pb_arena *a, struct pb_buf *out)
{
    struct utsname host;
    long rank = -1, world = -1;
    size_t len = 0;
    char *words = pb_proc_read(t->pid, "cmdline", a, &len);
    char *command = pb_proc_command(t->pid, a);

    pb_rank_read(t->pid, a, &rank, &world);
    uname(&host);
    add_text(out, "host", host.nodename);
    add_int(out, "pid", t->pid, true);
    add_int(out, "rank", rank, rank >= 0);
    add_int(out, "world_size", world, world >= 0);
    add_text(out, "command",
             command ? pb_secret_command(words ? words : "", len, command, a) : NULL);
}

static bool is_library(const char *file)
{
    return !file || file[0] == '<' || strstr(file, "/site-packages/") ||
           strstr(file, "/dist-packages/") || strstr(file, "/lib/python3");
}

static void add_frame(struct pb_buf *out, const char *key, const struct pb_frame *f)
{
    pb_json_key(out, key);
    if (!f) {
        pb_buf_puts(out, "null");
        return;
    }
    pb_buf_putc(out, '{');
    add_text(out, "func", f->func);
    add_text(out, "file", f->file);
    add_int(out, "lineno", f->lineno, f->lineno > 0);
    pb_buf_putc(out, '}');
}

/* The innermost Python frame; the innermost of the user's own; the innermost of all. */
static void add_place(const struct pb_crash_taken *t, struct pb_buf *out)
{
    const struct pb_frame *python = NULL, *user = NULL, *native = NULL;

    for (size_t i = 0; t->thread && i < t->thread->nframes; i++) {
        const struct pb_frame *f = &t->thread->frames[i];

        if (f->native && i == 0)
            native = f;
        if (!f->native && !python)
            python = f;
        if (!f->native && !user && !is_library(f->file))
            user = f;
    }
    add_int(out, "tid", t->record.tid, true);
    add_text(out, "thread", t->thread ? t->thread->name : NULL);
    add_frame(out, "at", python);
    add_frame(out, "user", user);
    pb_json_key(out, "native");
    pb_json_string_or_null(out, native ? native->func : NULL);
}

static void add_signal(const struct pb_crash_taken *t, struct pb_arena *a, struct pb_buf *out)
{
    const struct pb_crash_record *r = &t->record;
    bool is = r->kind == PB_CRASH_SIGNAL;

    add_text(out, "signal", is ? pb_signal_name(r->signal, a) : NULL);
    add_int(out, "code", r->code, is);
    add_text(out, "address",
             is && r->code > 0 ? pb_arena_printf(a, "0x%llx", (unsigned long long)r->address)
                               : NULL);
    add_int(out, "sender_pid", r->sender_pid, is && r->sender_pid);
    pb_json_key(out, "stack_overflow");
    pb_json_bool(out, t->overflown);
    add_text(out, "exception", t->exception ? pb_json_str(t->exception, "type", NULL) : NULL);
    add_text(out, "message", t->exception ? pb_json_str(t->exception, "message", NULL) : NULL);
}

static void add_training(const struct pb_crash_taken *t, struct pb_arena *a, struct pb_buf *out)
{
    const struct pb_crash_record *r = &t->record;
    struct pb_crash_home h;

    pb_crash_home_read(&h, t->pid, r, a);
    add_int(out, "step", r->step, r->step != PB_NULL_INT);
    add_int(out, "epoch", r->epoch, r->epoch != PB_NULL_INT);
    add_text(out, "phase", h.phase);
    add_text(out, "module", h.module);
    add_text(out, "collective", h.collective);
    add_text(out, "group", h.group);
    add_int(out, "collective_seq", h.collective_seq, h.collective_seq != PB_NULL_INT);
    add_text(out, "collective_state",
             h.in_collective ? "in it when it crashed" : h.collective_state);
    pb_json_key(out, "rss_mb_last_minute");
    pb_buf_putc(out, '[');
    for (size_t i = 0; i < h.nrss; i++)
        pb_buf_printf(out, "%s%.1f", i ? "," : "", h.rss_mb[i]);
    pb_buf_putc(out, ']');
}

static void add_memory(const struct pb_crash_taken *t, struct pb_arena *a, struct pb_buf *out)
{
    static const struct {
        const char *field, *key;
    } fields[] = {{"VmRSS:", "rss_mb"}, {"VmHWM:", "rss_peak_mb"}, {"Threads:", "threads"}};
    size_t len = 0;
    char *text = pb_proc_read(t->pid, "status", a, &len);

    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const char *at = text ? strstr(text, fields[i].field) : NULL;
        long long v = at ? atoll(at + strlen(fields[i].field)) : -1;

        pb_json_key(out, fields[i].key);
        if (v < 0)
            pb_buf_puts(out, "null");
        else
            pb_buf_printf(out, i < 2 ? "%.1f" : "%.0f", i < 2 ? (double)v / 1024 : (double)v);
    }
}

/* Errors of GPUs stand in the kernel's log, where that may be read. */
static void add_kernel(const struct pb_crash_taken *t, struct pb_buf *out, struct pb_arena *a)
{
    const char *lines[LINES_MAX];
    size_t n = pb_kernel_log("NVRM: Xid", 600, lines, LINES_MAX, a);

    pb_json_key(out, "gpu_errors");
    pb_buf_putc(out, '[');
    for (size_t i = 0; i < n; i++) {
        if (!pb_kernel_line_fits(lines[i], t->pid))
            continue;
        pb_json_comma(out);
        pb_json_string(out, lines[i]);
    }
    pb_buf_putc(out, ']');
}

void pb_crash_facts(struct pb_crash_taken *t, struct pb_arena *a)
{
    /* Members of an object, which pb_crash_head opens. */
    pb_buf_putc(&t->facts, '{');
    add_process(t, a, &t->facts);
    add_training(t, a, &t->facts);
    add_memory(t, a, &t->facts);
}

void pb_crash_head(const struct pb_crash_taken *t, struct pb_arena *a, struct pb_buf *out)
{
    pb_buf_putc(out, '{');
    add_text(out, "id", t->id);
    add_text(out, "kind", t->record.kind == PB_CRASH_SIGNAL ? "signal" : "exception");
    add_text(out, "cause", t->cause);
    add_time(out, t->record.wall_ns);
    pb_buf_printf(out, ",%s", t->facts.data + 1);
    add_text(out, "python", t->snapshot ? t->snapshot->python : NULL);
    add_signal(t, a, out);
    add_place(t, out);
    add_kernel(t, out, a);
    add_text(out, "trouble", t->trouble);
    pb_json_key(out, "read_ms");
    pb_buf_printf(out, "%.1f", t->read_ms);
    pb_buf_putc(out, '}');
}
