/* heap_show.c - Python objects by type as text and as JSON. */
#include "cli/memory/heap_show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/text/json_write.h"
#include "display/amount.h"

enum { COUNT_WIDTH = 13, BYTES_WIDTH = 11, SHARE_WIDTH = 9 };

/* One type in both looks. */
struct line {
    const struct pb_heap_type *now;
    int64_t count, bytes; /* more than before */
};

/* What a type is called in a line. */
static const char *full_name(struct pb_arena *a, const char *module, const char *type)
{
    return strcmp(module, "builtins") == 0 ? type : pb_arena_printf(a, "%s.%s", module, type);
}

static int compare_names(const void *x, const void *y)
{
    const struct pb_heap_type *const *a = x, *const *b = y;
    int order = strcmp((*a)->module, (*b)->module);

    return order ? order : strcmp((*a)->type, (*b)->type);
}

static int compare_growth(const void *x, const void *y)
{
    const struct line *a = x, *b = y;

    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return a->now->bytes < b->now->bytes ? 1 : a->now->bytes > b->now->bytes ? -1 : 0;
}

/* The types as they are, or, with an earlier look, those that grew most first. */
static struct line *make_lines(const struct pb_heap *h, const struct pb_heap *before,
                               struct pb_arena *a)
{
    struct line *v = PB_NEW_N(a, struct line, h->ntypes + 1);
    const struct pb_heap_type **old = NULL;
    size_t n = before ? before->ntypes : 0;

    old = PB_NEW_N(a, const struct pb_heap_type *, n + 1);
    for (size_t i = 0; i < n; i++)
        old[i] = &before->types[i];
    qsort(old, n, sizeof *old, compare_names);
    for (size_t i = 0; i < h->ntypes; i++) {
        const struct pb_heap_type *t = &h->types[i];
        const struct pb_heap_type **was;

        was = n ? bsearch(&t, old, n, sizeof *old, compare_names) : NULL;

        v[i] = (struct line){t, (int64_t)(t->count - (was ? (*was)->count : 0)),
                             (int64_t)(t->bytes - (was ? (*was)->bytes : 0))};
    }
    if (before)
        qsort(v, h->ntypes, sizeof *v, compare_growth);
    return v;
}

static void put_signed(struct pb_buf *out, const char *name, int64_t value)
{
    pb_buf_printf(out, ", \"%s\": %lld", name, (long long)value);
}

static void json_types(struct pb_buf *out, const struct pb_heap *h, const struct pb_heap *before,
                       struct pb_arena *a)
{
    struct line *v = make_lines(h, before, a);

    pb_buf_puts(out, ", \"types\": [");
    for (size_t i = 0; i < h->ntypes; i++) {
        pb_buf_puts(out, i ? ",\n  {\"type\": " : "\n  {\"type\": ");
        pb_json_string(out, v[i].now->type);
        pb_buf_puts(out, ", \"module\": ");
        pb_json_string(out, v[i].now->module);
        put_signed(out, "count", (int64_t)v[i].now->count);
        put_signed(out, "bytes", (int64_t)v[i].now->bytes);
        if (before) {
            put_signed(out, "count_growth", v[i].count);
            put_signed(out, "bytes_growth", v[i].bytes);
        }
        pb_buf_putc(out, '}');
    }
    pb_buf_putc(out, ']');
}

static void json_holders(struct pb_buf *out, const struct pb_heap *h, const char *type)
{
    pb_buf_puts(out, ", \"containers\": [");
    for (size_t i = 0; i < h->ncontainers; i++) {
        const struct pb_heap_container *c = &h->containers[i];

        pb_buf_puts(out, i ? ",\n  {\"type\": " : "\n  {\"type\": ");
        pb_json_string(out, c->type);
        pb_buf_puts(out, ", \"module\": ");
        pb_json_string(out, c->module);
        put_signed(out, "items", (int64_t)c->items);
        put_signed(out, "bytes", (int64_t)c->bytes);
        pb_buf_puts(out, ", \"held_by\": ");
        pb_json_string_or_null(out, c->holder);
        pb_buf_putc(out, '}');
    }
    pb_buf_putc(out, ']');
    if (!type)
        return;
    pb_buf_puts(out, ", \"held\": [");
    for (size_t i = 0; i < h->npaths; i++) {
        pb_buf_puts(out, i ? ",\n  {\"path\": " : "\n  {\"path\": ");
        pb_json_string(out, h->paths[i].path);
        put_signed(out, "count", (int64_t)h->paths[i].count);
        put_signed(out, "bytes", (int64_t)h->paths[i].bytes);
        pb_buf_putc(out, '}');
    }
    pb_buf_putc(out, ']');
    put_signed(out, "not_reached", (int64_t)h->unreached);
}

void pb_heap_json(struct pb_buf *out, const struct pb_heap_shown *o, const struct pb_heap *h,
                  const struct pb_heap *before, struct pb_arena *a)
{
    pb_buf_printf(out, "{\"pid\": %d, \"python\": ", (int)o->pid);
    pb_json_string(out, o->version);
    put_signed(out, "objects", (int64_t)h->objects);
    put_signed(out, "bytes", (int64_t)h->bytes);
    put_signed(out, "skipped", (int64_t)h->skipped);
    put_signed(out, "allocator_bytes", (int64_t)h->allocator_bytes);
    put_signed(out, "copied_bytes", (int64_t)h->copied_bytes);
    pb_buf_printf(out, ", \"seconds\": %.6f, \"how\": ", h->seconds);
    pb_json_string_or_null(out, h->how);
    pb_buf_puts(out, ", \"note\": ");
    pb_json_string_or_null(out, h->note);
    json_types(out, h, before, a);
    json_holders(out, h, o->type);
    pb_buf_puts(out, "}\n");
}

static void print_head(struct pb_print *out, const struct pb_heap_shown *o,
                       const struct pb_heap *h, struct pb_arena *a)
{
    pb_print_style(out, PB_BOLD);
    pb_print_f(out, o->core ? "core of process %d" : "process %d", (int)o->pid);
    pb_print_style(out, PB_PLAIN);
    if (o->command)
        pb_print_f(out, "  %s", pb_text_clean(a, o->command));
    pb_print_f(out, "  Python %s · %s objects, %s · read in %.2f s%s\n", o->version,
               pb_amount_count(a, (int64_t)h->objects, false),
               pb_amount_bytes(a, (int64_t)h->bytes, false), h->seconds,
               o->core ? "" : " without a stop");
}

static void put_count(struct pb_print *out, struct pb_arena *a, int64_t n, bool sign)
{
    pb_print_cell(out, PB_PLAIN, pb_amount_count(a, n, sign), COUNT_WIDTH, true);
}

static void put_bytes(struct pb_print *out, struct pb_arena *a, int64_t n, bool sign)
{
    pb_print_cell(out, PB_PLAIN, pb_amount_bytes(a, n, sign), BYTES_WIDTH, true);
}

static void put_share(struct pb_print *out, struct pb_arena *a, double share)
{
    pb_print_cell(out, PB_DIM, pb_arena_printf(a, "%.1f %%", 100 * share), SHARE_WIDTH, true);
}

static void print_titles(struct pb_print *out, const char *const *titles, const size_t *widths,
                         const char *last)
{
    for (size_t i = 0; titles[i]; i++)
        pb_print_cell(out, PB_DIM, titles[i], widths[i], true);
    pb_print_puts(out, "  ");
    pb_print_text(out, PB_DIM, last);
    pb_print_puts(out, "\n");
}

static void print_types(struct pb_print *out, const struct pb_heap_shown *o,
                        const struct pb_heap *h, const struct pb_heap *before, struct pb_arena *a)
{
    static const char *const plain[] = {"count", "bytes", "share", NULL};
    static const char *const grown[] = {"count", "growth", "bytes", "growth", NULL};
    static const size_t plain_widths[] = {COUNT_WIDTH, BYTES_WIDTH, SHARE_WIDTH};
    static const size_t grown_widths[] = {COUNT_WIDTH, COUNT_WIDTH, BYTES_WIDTH, BYTES_WIDTH};
    struct line *v = make_lines(h, before, a);
    uint64_t rest = 0;

    print_titles(out, before ? grown : plain, before ? grown_widths : plain_widths, "type");
    for (size_t i = 0; i < h->ntypes; i++) {
        const struct pb_heap_type *t = v[i].now;

        if (i >= o->types) {
            rest += t->bytes;
            continue;
        }
        put_count(out, a, (int64_t)t->count, false);
        if (before)
            put_count(out, a, v[i].count, true);
        put_bytes(out, a, (int64_t)t->bytes, false);
        if (before)
            put_bytes(out, a, v[i].bytes, true);
        else
            put_share(out, a, (double)t->bytes / (double)h->bytes);
        pb_print_f(out, "  %s\n", pb_text_clean(a, full_name(a, t->module, t->type)));
    }
    if (h->ntypes > o->types)
        pb_print_f(out, "%*s… %zu more types, %s\n", COUNT_WIDTH - 1, "", h->ntypes - o->types,
                   pb_amount_bytes(a, (int64_t)rest, false));
}

static void print_containers(struct pb_print *out, const struct pb_heap *h, struct pb_arena *a)
{
    static const char *const titles[] = {"items", "bytes", NULL};
    static const size_t widths[] = {COUNT_WIDTH, BYTES_WIDTH};
    size_t width = 4;

    if (!h->ncontainers)
        return;
    for (size_t i = 0; i < h->ncontainers; i++) {
        size_t n = pb_text_width(h->containers[i].type);

        width = n > width ? n : width;
    }
    pb_print_puts(out, "\nlargest containers\n");
    for (size_t i = 0; titles[i]; i++)
        pb_print_cell(out, PB_DIM, titles[i], widths[i], true);
    pb_print_puts(out, "  ");
    pb_print_cell(out, PB_DIM, "type", width, false);
    pb_print_puts(out, "  ");
    pb_print_text(out, PB_DIM, "held by");
    pb_print_puts(out, "\n");
    for (size_t i = 0; i < h->ncontainers; i++) {
        const struct pb_heap_container *c = &h->containers[i];

        put_count(out, a, (int64_t)c->items, false);
        put_bytes(out, a, (int64_t)c->bytes, false);
        pb_print_puts(out, "  ");
        pb_print_cell(out, PB_PLAIN, pb_text_clean(a, c->type), width, false);
        pb_print_puts(out, "  ");
        if (c->holder)
            pb_print_f(out, "%s\n", pb_text_clean(a, c->holder));
        else {
            pb_print_text(out, PB_DIM, "no variable of a module or running function leads to it");
            pb_print_puts(out, "\n");
        }
    }
}

static void print_paths(struct pb_print *out, const struct pb_heap_shown *o,
                        const struct pb_heap *h, struct pb_arena *a)
{
    static const char *const titles[] = {"count", "bytes", NULL};
    static const size_t widths[] = {COUNT_WIDTH, BYTES_WIDTH};
    uint64_t rest = 0;

    pb_print_f(out, "objects of type %s are held by\n", pb_text_clean(a, o->type));
    print_titles(out, titles, widths, "variable");
    for (size_t i = 0; i < h->npaths; i++) {
        const struct pb_heap_path *p = &h->paths[i];

        if (i >= o->types) {
            rest += p->count;
            continue;
        }
        put_count(out, a, (int64_t)p->count, false);
        put_bytes(out, a, (int64_t)p->bytes, false);
        pb_print_f(out, "  %s\n", pb_text_clean(a, p->path));
    }
    if (h->npaths > o->types)
        pb_print_f(out, "%*s… %s in %zu more places\n", COUNT_WIDTH - 1, "",
                   pb_amount_count(a, (int64_t)rest, false), h->npaths - o->types);
    if (h->unreached)
        pb_print_f(out, "%*s  that no variable of a module or running function leads to\n",
                   COUNT_WIDTH, pb_amount_count(a, (int64_t)h->unreached, false));
}

void pb_heap_text(struct pb_print *out, const struct pb_heap_shown *o, const struct pb_heap *h,
                  const struct pb_heap *before, struct pb_arena *a)
{
    print_head(out, o, h, a);
    if (o->type) {
        print_paths(out, o, h, a);
    } else {
        print_types(out, o, h, before, a);
        print_containers(out, h, a);
    }
    if (h->skipped)
        pb_print_f(out, "\n%s %s left out: changed while being read\n",
                   pb_amount_count(a, (int64_t)h->skipped, false),
                   h->skipped == 1 ? "object" : "objects");
    if (h->note)
        pb_print_f(out, "\n%s\n", h->note);
}
