#include "show/stack.h"

#include <string.h>

static void add_locals(struct pb_buf *out, const struct pb_frame *f)
{
    pb_buf_putc(out, '{');
    for (size_t i = 0; i < f->nlocals; i++) {
        pb_json_key(out, f->locals[i].name);
        pb_json_string(out, f->locals[i].value);
    }
    pb_buf_putc(out, '}');
}

const char *pb_stack_native_name(const struct pb_frame *f, struct pb_arena *a)
{
    const char *base = f->module ? strrchr(f->module, '/') : NULL;

    if (f->func)
        return f->func;
    if (!f->module)
        return pb_arena_printf(a, "0x%llx", (unsigned long long)f->offset);
    return pb_arena_printf(a, "%s+0x%llx", base ? base + 1 : f->module,
                           (unsigned long long)f->offset);
}

static void add_frame(struct pb_buf *out, const struct pb_frame *f, bool locals,
                      struct pb_arena *a)
{
    pb_json_comma(out);
    pb_buf_putc(out, '{');
    pb_json_key(out, "depth");
    pb_json_int(out, (int64_t)f->depth);
    pb_json_key(out, "func");
    pb_json_string(out, f->native ? pb_stack_native_name(f, a) : f->func);
    pb_json_key(out, "file");
    pb_json_string_or_null(out, f->file ? f->file : f->module);
    pb_json_key(out, "lineno");
    if (f->lineno > 0)
        pb_json_int(out, f->lineno);
    else
        pb_buf_puts(out, "null");
    pb_json_key(out, "frame_type");
    pb_json_string(out, f->native ? "native" : "python");
    if (f->native) {
        pb_json_key(out, "module");
        pb_json_string_or_null(out, f->module);
        pb_json_key(out, "offset");
        pb_json_int(out, (int64_t)f->offset);
    }
    pb_json_key(out, "locals");
    if (locals && !f->native)
        add_locals(out, f);
    else
        pb_buf_puts(out, "null");
    pb_buf_putc(out, '}');
}

static void add_thread(struct pb_buf *out, const struct pb_thread *t, bool locals,
                       struct pb_arena *a)
{
    pb_json_comma(out);
    pb_buf_putc(out, '{');
    pb_json_key(out, "tid");
    pb_json_int(out, t->tid);
    pb_json_key(out, "ns_tid");
    pb_json_int(out, t->ns_tid);
    pb_json_key(out, "name");
    pb_json_string_or_null(out, t->name);
    pb_json_key(out, "is_main");
    pb_json_bool(out, t->is_main);
    pb_json_key(out, "is_python");
    pb_json_bool(out, t->python);
    pb_json_key(out, "holds_gil");
    pb_json_bool(out, t->holds_gil);
    pb_json_key(out, "state");
    pb_json_string(out, pb_state_name(t->state));
    pb_json_key(out, "wait");
    pb_json_string_or_null(out, t->wait);
    pb_json_key(out, "torn");
    pb_json_bool(out, t->torn);
    pb_json_key(out, "pause_us");
    pb_buf_printf(out, "%.1f", t->pause_us);
    pb_json_key(out, "note");
    pb_json_string_or_null(out, t->note);
    pb_json_key(out, "total");
    pb_json_int(out, (int64_t)t->total);
    pb_json_key(out, "elided");
    pb_json_int(out, (int64_t)t->elided);
    pb_json_key(out, "frames");
    pb_buf_putc(out, '[');
    for (size_t i = 0; i < t->nframes; i++)
        add_frame(out, &t->frames[i], locals, a);
    pb_buf_puts(out, "]}");
}

void pb_stack_json(struct pb_buf *out, const struct pb_snapshot *s,
                   const struct pb_snapshot_opts *o)
{
    struct pb_arena a = PB_ARENA_INIT;

    pb_buf_putc(out, '{');
    pb_json_key(out, "pid");
    pb_json_int(out, s->pid);
    pb_json_key(out, "ns_pid");
    pb_json_int(out, s->ns_pid);
    pb_json_key(out, "python");
    pb_json_string(out, s->python);
    pb_json_key(out, "free_threaded");
    pb_json_bool(out, s->free_threaded);
    pb_json_key(out, "found_by");
    pb_json_string_or_null(out, s->how);
    pb_json_key(out, "pause_us");
    pb_buf_printf(out, "%.1f", s->pause_us);
    pb_json_key(out, "took_us");
    pb_buf_printf(out, "%.1f", s->total_us);
    pb_json_key(out, "threads");
    pb_buf_putc(out, '[');
    for (size_t i = 0; i < s->nthreads; i++)
        add_thread(out, &s->threads[i], o->locals, &a);
    pb_buf_puts(out, "]}\n");
    pb_arena_finish(&a);
}
