#include <stdio.h>
#include <string.h>

#include "show/stack.h"
#include "unwind/tree.h"

#define DOT " \xc2\xb7 " /* a middle dot */
#define DEPTH_SHOWN 64
/* Columns that are left for a stack, however deep it stands in the tree. */
#define WIDTH_MIN 40

struct tree {
    struct pb_print *out;
    const struct pb_snapshot_opts *o;
    const struct pb_tree_process *v;
    size_t n;
    bool json, verbose, secrets;
    bool open[DEPTH_SHOWN + 1]; /* at each depth: more children of the same parent follow */
};

static bool has_children(const struct tree *t, size_t i)
{
    return i + 1 < t->n && t->v[i + 1].depth > t->v[i].depth;
}

/* What stands in front of the lines of a process: the branches that go past it. */
static void add_guides(const struct tree *t, size_t depth, struct pb_buf *b)
{
    for (size_t d = 1; d < depth; d++)
        pb_buf_puts(b, t->open[d] ? "│  " : "   ");
}

static void print_head(struct tree *t, const struct pb_tree_process *p, const char *python)
{
    struct pb_arena a = PB_ARENA_INIT;

    add_guides(t, p->depth, &t->out->buf);
    if (p->depth)
        pb_print_puts(t->out, p->is_last ? "└─ " : "├─ ");
    pb_print_style(t->out, PB_BOLD);
    pb_print_f(t->out, "Process %d", (int)p->pid);
    pb_print_style(t->out, PB_PLAIN);
    if (p->rank >= 0 && p->world_size > 0)
        pb_print_f(t->out, DOT "rank %ld/%ld", p->rank, p->world_size);
    else if (p->rank >= 0)
        pb_print_f(t->out, DOT "rank %ld", p->rank);
    pb_print_f(t->out, DOT "%s", python);
    pb_print_puts(t->out, DOT);
    pb_print_text(t->out, PB_PLAIN,
                  t->out->width > 0 ? pb_text_end(&a, pb_text_clean(&a, p->command),
                                                  (size_t)t->out->width / 2)
                                    : p->command);
    pb_print_puts(t->out, "\n");
    pb_arena_finish(&a);
}

/* Puts the branches in front of each line. */
static void print_body(struct tree *t, size_t i, const char *text)
{
    const struct pb_tree_process *p = &t->v[i];
    struct pb_buf guide = PB_BUF_INIT;

    add_guides(t, p->depth, &guide);
    if (p->depth)
        pb_buf_puts(&guide, t->open[p->depth] ? "│  " : "   ");
    pb_buf_puts(&guide, has_children(t, i) ? "│ " : "  ");
    while (text && *text) {
        size_t len = strcspn(text, "\n");

        pb_print_puts(t->out, guide.data);
        pb_buf_add(&t->out->buf, text, len);
        pb_print_puts(t->out, "\n");
        text += len + (text[len] == '\n');
    }
    pb_buf_finish(&guide);
}

static void print_process(struct tree *t, size_t i, const struct pb_snapshot *s,
                          const struct pb_err *err)
{
    const struct pb_tree_process *p = &t->v[i];
    struct pb_print inner = {.fd = -1, .colour = t->out->colour};
    char python[40] = "Python";
    int width = t->out->width - (int)(3 * p->depth + 2);

    if (s)
        snprintf(python, sizeof python, "Python %s%s%s", s->python, s->free_threaded ? "t" : "",
                 s->shutting_down ? DOT "shutting down" : "");
    print_head(t, p, p->is_python ? python : "not Python");
    if (t->out->width > 0)
        inner.width = width > WIDTH_MIN ? width : WIDTH_MIN;
    if (s)
        pb_stack_text_threads(&inner, s, t->verbose);
    else if (p->is_python)
        pb_print_f(&inner, "(%s)\n", err->msg);
    print_body(t, i, inner.buf.data);
    pb_buf_finish(&inner.buf);
}

static void add_json(struct tree *t, const struct pb_tree_process *p, struct pb_snapshot *s,
                     const struct pb_err *err)
{
    struct pb_buf *b = &t->out->buf;

    if (s) {
        s->family = p;
        pb_stack_json(b, s, t->o);
        return;
    }
    pb_buf_putc(b, '{');
    pb_json_key(b, "pid");
    pb_json_int(b, p->pid);
    pb_stack_json_family(b, p);
    pb_json_key(b, "error");
    pb_json_string_or_null(b, p->is_python ? err->msg : NULL);
    pb_json_key(b, "threads");
    pb_buf_puts(b, "[]}\n");
}

/* Reads and shows one process; a Python that cannot be read is shown with the reason. */
static bool show_process(struct tree *t, size_t i, struct pb_err *first)
{
    const struct pb_tree_process *p = &t->v[i];
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_target *target = NULL;
    struct pb_snapshot snap;
    struct pb_err err = {0};
    bool ok = p->is_python && pb_target_open(&target, p->pid, NULL, &err) == 0 &&
              pb_target_snapshot(target, t->o, &a, &snap, &err) == 0;

    t->open[p->depth] = !p->is_last;
    if (ok && !t->secrets)
        pb_stack_mask(&snap, &a);
    if (t->json)
        add_json(t, p, ok ? &snap : NULL, &err);
    else
        print_process(t, i, ok ? &snap : NULL, &err);
    if (p->is_python && !ok && first->code == PB_OK)
        *first = err;
    pb_target_close(target);
    pb_arena_finish(&a);
    return ok;
}

int pb_stack_tree(struct pb_print *out, pid_t pid, const struct pb_snapshot_opts *o,
                  const struct pb_stack_tree_opts *how, struct pb_err *err)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_tree_process *v;
    struct pb_err first = {0};
    int n = pb_tree_read(pid, how->within, how->arg, &a, &v, err), shown = 0;
    struct tree t = {out, o, v, n > 0 ? (size_t)n : 0, how->json,
                     how->verbose, how->secrets, {0}};

    for (int i = 0; i < n; i++)
        shown += show_process(&t, (size_t)i, &first);
    pb_arena_finish(&a);
    if (n < 0)
        return -1;
    if (!shown && first.code != PB_OK)
        return pb_err_set(err, first.code, "%s", first.msg);
    return shown ? 0
                 : pb_err_set(err, PB_FAIL, "%d: neither a Python process nor the parent of one",
                              (int)pid);
}
