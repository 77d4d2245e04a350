#include "display/stack.h"

#include <string.h>

#include "host/text/json_write.h"
#include "host/python/tree.h"

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

static void add_number(struct pb_buf *out, const char *key, int64_t value, bool known)
{
    pb_json_key(out, key);
    if (known)
        pb_json_int(out, value);
    else
        pb_buf_puts(out, "null");
}

static void add_arguments(struct pb_buf *out, const struct pb_frame *f)
{
    pb_buf_putc(out, '[');
    for (size_t i = 0; i < f->nlocals; i++) {
        if (!f->locals[i].argument)
            continue;
        pb_json_comma(out);
        pb_json_string(out, f->locals[i].name);
    }
    pb_buf_putc(out, ']');
}

static void add_location(struct pb_buf *out, const struct pb_frame *f, bool source)
{
    add_number(out, "lineno", f->lineno, f->lineno > 0);
    add_number(out, "end_lineno", f->end_lineno, f->end_lineno > 0);
    add_number(out, "col_offset", f->col_offset, f->col_offset >= 0);
    add_number(out, "end_col_offset", f->end_col_offset, f->end_col_offset >= 0);
    if (source) {
        pb_json_key(out, "source");
        pb_json_string_or_null(out, f->source);
        add_number(out, "indentation", f->indentation, f->source && f->indentation >= 0);
    }
    add_number(out, "interpreter", f->interpreter, !f->native);
}

static void add_frame(struct pb_buf *out, const struct pb_frame *f,
                      const struct pb_snapshot_opts *o, struct pb_arena *a)
{
    bool locals = o->locals && !f->native;

    pb_json_comma(out);
    pb_buf_putc(out, '{');
    pb_json_key(out, "depth");
    pb_json_int(out, (int64_t)f->depth);
    pb_json_key(out, "func");
    pb_json_string(out, f->native ? pb_stack_native_name(f, a) : f->func);
    pb_json_key(out, "file");
    pb_json_string_or_null(out, f->file ? f->file : f->module);
    add_location(out, f, o->source);
    pb_json_key(out, "frame_type");
    pb_json_string(out, f->native ? "native" : "python");
    if (f->native) {
        pb_json_key(out, "module");
        pb_json_string_or_null(out, f->module);
        pb_json_key(out, "offset");
        pb_json_int(out, (int64_t)f->offset);
    }
    pb_json_key(out, "locals");
    if (locals)
        add_locals(out, f);
    else
        pb_buf_puts(out, "null");
    pb_json_key(out, "arguments");
    if (locals)
        add_arguments(out, f);
    else
        pb_buf_puts(out, "null");
    pb_buf_putc(out, '}');
}

static void add_thread(struct pb_buf *out, const struct pb_thread *t,
                       const struct pb_snapshot_opts *o, struct pb_arena *a)
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
    add_number(out, "interpreter", t->interpreter, t->python);
    pb_json_key(out, "collecting_garbage");
    pb_json_bool(out, t->collecting);
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
        add_frame(out, &t->frames[i], o, a);
    pb_buf_puts(out, "]}");
}

static void add_family(struct pb_buf *out, const struct pb_tree_process *p)
{
    add_number(out, "parent", p->parent, p->depth > 0);
    pb_json_key(out, "command");
    pb_json_string_or_null(out, p->command);
    add_number(out, "rank", p->rank, p->rank >= 0);
    add_number(out, "world_size", p->world_size, p->world_size >= 0);
}

/* One that could not be read, or is no Python but has some below it. */
static void add_unread(struct pb_buf *out, const struct pb_stack_process *p)
{
    pb_buf_putc(out, '{');
    pb_json_key(out, "pid");
    pb_json_int(out, p->family->pid);
    add_family(out, p->family);
    pb_json_key(out, "error");
    pb_json_string_or_null(out, p->family->is_python ? p->err.msg : NULL);
    pb_json_key(out, "threads");
    pb_buf_puts(out, "[]}\n");
}

void pb_stack_json(struct pb_buf *out, const struct pb_stack_process *p,
                   const struct pb_snapshot_opts *o)
{
    const struct pb_snapshot *s = p->snapshot;
    struct pb_arena a = PB_ARENA_INIT;

    if (!s) {
        add_unread(out, p);
        return;
    }
    pb_buf_putc(out, '{');
    pb_json_key(out, "pid");
    pb_json_int(out, s->pid);
    pb_json_key(out, "ns_pid");
    pb_json_int(out, s->ns_pid);
    if (p->family)
        add_family(out, p->family);
    pb_json_key(out, "python");
    pb_json_string(out, s->python);
    pb_json_key(out, "free_threaded");
    pb_json_bool(out, s->free_threaded);
    pb_json_key(out, "shutting_down");
    pb_json_bool(out, s->shutting_down);
    pb_json_key(out, "found_by");
    pb_json_string_or_null(out, s->how);
    pb_json_key(out, "pause_us");
    pb_buf_printf(out, "%.1f", s->pause_us);
    pb_json_key(out, "took_us");
    pb_buf_printf(out, "%.1f", s->total_us);
    pb_json_key(out, "threads");
    pb_buf_putc(out, '[');
    for (size_t i = 0; i < s->nthreads; i++)
        add_thread(out, &s->threads[i], o, &a);
    pb_buf_puts(out, "]}\n");
    pb_arena_finish(&a);
}
