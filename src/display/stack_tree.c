#include <stdio.h>
#include <string.h>

#include "host/python/tree.h"
#include "display/stack.h"

#define DOT " \xc2\xb7 " /* a middle dot */
#define DEPTH_SHOWN 64
/* Columns that are left for a stack, however deep it stands in the tree. */
#define WIDTH_MIN 40

struct tree {
    struct pb_print *out;
    const struct pb_stack_process *v;
    size_t n;
    bool verbose;
    bool open[DEPTH_SHOWN + 1]; /* at each depth: more children of the same parent follow */
};

static bool has_children(const struct tree *t, size_t i)
{
    return i + 1 < t->n && t->v[i + 1].family->depth > t->v[i].family->depth;
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
    const struct pb_tree_process *p = t->v[i].family;
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

static void print_process(struct tree *t, size_t i)
{
    const struct pb_tree_process *p = t->v[i].family;
    const struct pb_snapshot *s = t->v[i].snapshot;
    struct pb_print inner = {.fd = -1, .colour = t->out->colour};
    char python[40] = "Python";
    int width = t->out->width - (int)(3 * p->depth + 2);

    t->open[p->depth] = !p->is_last;
    if (s)
        snprintf(python, sizeof python, "Python %s%s%s", s->python, s->free_threaded ? "t" : "",
                 s->shutting_down ? DOT "shutting down" : "");
    print_head(t, p, p->is_python ? python : "not Python");
    if (t->out->width > 0)
        inner.width = width > WIDTH_MIN ? width : WIDTH_MIN;
    if (s)
        pb_stack_text_threads(&inner, s, t->verbose);
    else if (p->is_python)
        pb_print_f(&inner, "(%s)\n", t->v[i].err.msg);
    print_body(t, i, inner.buf.data);
    pb_buf_finish(&inner.buf);
}

void pb_stack_tree_text(struct pb_print *out, const struct pb_stack_process *v, size_t n,
                        bool verbose)
{
    struct tree t = {.out = out, .v = v, .n = n, .verbose = verbose};

    for (size_t i = 0; i < n; i++)
        print_process(&t, i);
}
