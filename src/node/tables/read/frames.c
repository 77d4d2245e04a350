#include "node/tables/read/frames.h"

#include "host/text/buf.h"
#include "host/text/json_write.h"
#include "host/text/secret.h"
#include "display/stack.h"

static const char *locals_json(const struct pb_frame *f, struct pb_buf *b)
{
    struct pb_arena a = PB_ARENA_INIT;

    pb_buf_clear(b);
    pb_buf_putc(b, '{');
    for (size_t i = 0; i < f->nlocals; i++) {
        pb_json_key(b, f->locals[i].name);
        pb_json_string(b, pb_secret_local(f->locals[i].name, f->locals[i].value, &a));
    }
    pb_buf_putc(b, '}');
    pb_arena_finish(&a);
    return b->data;
}

static const char *arguments_json(const struct pb_frame *f, struct pb_buf *b)
{
    pb_buf_clear(b);
    pb_buf_putc(b, '[');
    for (size_t i = 0; i < f->nlocals; i++) {
        if (!f->locals[i].argument)
            continue;
        pb_json_comma(b);
        pb_json_string(b, f->locals[i].name);
    }
    pb_buf_putc(b, ']');
    return b->data;
}

struct filling {
    struct pb_node *node;
    bool locals, arguments;
    pb_frame_rest *rest;
    struct pb_rows *rows;
    struct pb_buf text; /* the locals of one frame as text */
};

static void add_details(struct filling *f, struct pb_row_cell *row, const struct pb_snapshot *s,
                        const struct pb_thread *t, const struct pb_frame *frame)
{
    if (frame->end_lineno > 0)
        pb_rows_int(row, PB_FRAME_end_lineno, frame->end_lineno);
    if (frame->col_offset >= 0)
        pb_rows_int(row, PB_FRAME_col_offset, frame->col_offset);
    if (frame->end_col_offset >= 0)
        pb_rows_int(row, PB_FRAME_end_col_offset, frame->end_col_offset);
    if (f->arguments && !frame->native)
        pb_rows_text(f->rows, row, PB_FRAME_arguments, arguments_json(frame, &f->text));
    if (!frame->native)
        pb_rows_int(row, PB_FRAME_interpreter, frame->interpreter);
    pb_rows_bool(row, PB_FRAME_collecting_garbage, t->collecting);
    pb_rows_bool(row, PB_FRAME_shutting_down, s->shutting_down);
}

static void add_frame(struct filling *f, const struct pb_live_process *p,
                      const struct pb_snapshot *s, const struct pb_thread *t,
                      const struct pb_frame *frame)
{
    struct pb_row_cell *row = pb_rows_add(f->rows);
    struct pb_rows *rows = f->rows;

    pb_rows_int(row, PB_FRAME_depth, (int64_t)frame->depth);
    pb_rows_text(rows, row, PB_FRAME_func,
                 frame->native ? pb_stack_native_name(frame, &rows->arena) : frame->func);
    pb_rows_text(rows, row, PB_FRAME_file, frame->file ? frame->file : frame->module);
    if (frame->lineno > 0)
        pb_rows_int(row, PB_FRAME_lineno, frame->lineno);
    pb_rows_text(rows, row, PB_FRAME_frame_type, frame->native ? "native" : "python");
    if (f->locals && !frame->native)
        pb_rows_text(rows, row, PB_FRAME_locals, locals_json(frame, &f->text));
    pb_rows_int(row, PB_FRAME_tid, t->tid);
    pb_rows_text(rows, row, PB_FRAME_thread, t->name);
    add_details(f, row, s, t, frame);
    pb_live_common(rows, row, f->node->host, p->pid, p->rank);
    if (f->rest)
        f->rest(rows, row, t);
}

int pb_frames_fill(struct pb_node *n, const struct pb_scope *s, const bool *wanted, bool all,
                   pb_frame_rest *rest, struct pb_rows *rows)
{
    struct filling f = {.node = n,
                        .locals = wanted[PB_FRAME_locals] && !s->no_look,
                        .arguments = wanted[PB_FRAME_arguments] && !s->no_look,
                        .rest = rest,
                        .rows = rows};
    struct pb_snapshot_opts o = {.all = all, .locals = f.locals || f.arguments,
                                 .native = pb_node_setting(n, PB_SET_STACKS_NATIVE)};
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_live_process *v = NULL;
    size_t count = pb_live_processes(n, s, wanted[rows->ncolumns - 1], &a, &v);
    struct pb_stack_batch *batch = pb_live_stacks(n, v, count, &o);

    if (wanted[PB_FRAME_locals] && s->no_look)
        rows->notice = "locals are NULL: local variables need a token of scope look";
    for (size_t i = 0; i < count; i++) {
        const struct pb_stack_read *r = pb_stack_batch_get(batch, i);

        for (size_t t = 0; r && r->err.code == PB_OK && t < r->snapshot.nthreads; t++)
            for (size_t k = 0; k < r->snapshot.threads[t].nframes; k++)
                add_frame(&f, &v[i], &r->snapshot, &r->snapshot.threads[t],
                          &r->snapshot.threads[t].frames[k]);
    }
    pb_stack_batch_drop(batch);
    pb_buf_finish(&f.text);
    pb_arena_finish(&a);
    return 0;
}
