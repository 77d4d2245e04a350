/*
 * What queries see of the archive, and the gate that keeps it still while they look.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/text/buf.h"
#include "node/archive/internal.h"

void pb_archive_begin(struct pb_archive *a)
{
    struct pb_gate *g = &a->gate;

    pthread_mutex_lock(&g->lock);
    while (g->changing)
        pthread_cond_wait(&g->moved, &g->lock);
    g->looking++;
    g->running++;
    pthread_mutex_unlock(&g->lock);
}

static void leave(struct pb_gate *g, int *count)
{
    pthread_mutex_lock(&g->lock);
    if (--*count == 0)
        pthread_cond_broadcast(&g->moved);
    pthread_mutex_unlock(&g->lock);
}

void pb_archive_bound(struct pb_archive *a)
{
    leave(&a->gate, &a->gate.looking);
}

void pb_archive_end(struct pb_archive *a)
{
    leave(&a->gate, &a->gate.running);
}

void pb_gate_change(struct pb_gate *g)
{
    pthread_mutex_lock(&g->lock);
    while (g->changing)
        pthread_cond_wait(&g->moved, &g->lock);
    g->changing = true;
    while (g->looking)
        pthread_cond_wait(&g->moved, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

bool pb_gate_quiet(struct pb_gate *g, int ms)
{
    struct timespec until = pb_archive_in(ms);
    bool quiet;

    pthread_mutex_lock(&g->lock);
    while ((g->changing || g->running) &&
           pthread_cond_timedwait(&g->moved, &g->lock, &until) != ETIMEDOUT)
        ;
    quiet = !g->changing && !g->running;
    if (quiet)
        g->changing = true;
    pthread_mutex_unlock(&g->lock);
    return quiet;
}

void pb_gate_close(struct pb_gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->changing = false;
    pthread_cond_broadcast(&g->moved);
    pthread_mutex_unlock(&g->lock);
}

/* A pattern for the files of a table. Letters with a meaning in a pattern stand in brackets. */
static const char *glob_of(const struct pb_lake *l, const char *table, struct pb_arena *arena)
{
    struct pb_buf b = PB_BUF_INIT;
    const char *glob;

    for (const char *p = l->root; *p; p++) {
        if (strchr("*?[", *p))
            pb_buf_printf(&b, "[%c]", *p);
        else
            pb_buf_putc(&b, *p);
    }
    pb_buf_printf(&b, "/%s/date=*/host=*/process=*/part-*.parquet", table);
    glob = pb_arena_strndup(arena, b.data, b.len);
    pb_buf_finish(&b);
    return glob;
}

/* Sums up the series from `from` on that belong to one table; returns the first that does not. */
static size_t sum_table(const struct pb_lake *l, size_t from, struct pb_archive_table *t)
{
    const char *name = l->series[from]->id.table;
    uint64_t columns = 0, distinct = 0;
    bool unknown = false;
    size_t i;

    *t = (struct pb_archive_table){0};
    for (i = from; i < l->nseries && strcmp(l->series[i]->id.table, name) == 0; i++) {
        const struct pb_series *s = l->series[i];

        for (size_t k = 0; k < s->nparts; k++) {
            const struct pb_part *p = &s->parts[k];

            t->files++;
            t->bytes += p->bytes;
            t->rows += p->rows;
            unknown |= !p->columns;
            if (p->columns && p->columns != columns) {
                distinct++;
                columns = p->columns;
                /* The same set of schemas shall come out the same, however it is mixed. */
                t->changes |= columns;
            }
        }
    }
    t->mixed = unknown || distinct > 1;
    t->changes = (t->changes | 1) * 2 + t->mixed;
    return i;
}

size_t pb_archive_tables(struct pb_archive *a, struct pb_arena *arena,
                         struct pb_archive_table **ret)
{
    struct pb_archive_table t;
    size_t n = 0, cap = 0;

    if (a->tables) {
        *ret = a->tables;
        return a->ntables;
    }
    *ret = NULL;
    pthread_mutex_lock(&a->index);
    for (size_t i = 0; i < a->lake.nseries;) {
        const char *name = a->lake.series[i]->id.table;

        i = sum_table(&a->lake, i, &t);
        if (!t.files)
            continue;
        if (n == cap) {
            *ret = pb_arena_grow(arena, *ret, cap * sizeof t, (2 * cap + 16) * sizeof t);
            cap = 2 * cap + 16;
        }
        t.name = pb_arena_strdup(arena, name);
        t.glob = glob_of(&a->lake, name, arena);
        (*ret)[n++] = t;
    }
    pthread_mutex_unlock(&a->index);
    return n;
}

static int compare_processes(const void *x, const void *y)
{
    const struct pb_archive_process *a = x, *b = y;
    int d = strcmp(a->id, b->id);

    return d ? d : strcmp(a->host, b->host);
}

size_t pb_archive_processes(struct pb_archive *a, struct pb_arena *arena,
                            struct pb_archive_process **ret)
{
    struct pb_archive_process *list;
    size_t n = 0, unique = 0;

    pthread_mutex_lock(&a->index);
    list = PB_NEW_N(arena, struct pb_archive_process, a->lake.nseries + 1);
    for (size_t i = 0; i < a->lake.nseries; i++) {
        const struct pb_series *s = a->lake.series[i];

        if (!s->nparts)
            continue;
        list[n] = (struct pb_archive_process){.id = pb_arena_strdup(arena, s->id.process),
                                              .host = pb_arena_strdup(arena, s->id.host)};
        for (size_t k = 0; k < s->nparts; k++)
            if (s->parts[k].last_ns > list[n].last_ns)
                list[n].last_ns = s->parts[k].last_ns;
        n++;
    }
    pthread_mutex_unlock(&a->index);
    qsort(list, n, sizeof *list, compare_processes);
    for (size_t i = 0; i < n; i++) {
        if (unique && compare_processes(&list[unique - 1], &list[i]) == 0) {
            if (list[i].last_ns > list[unique - 1].last_ns)
                list[unique - 1].last_ns = list[i].last_ns;
        } else {
            list[unique++] = list[i];
        }
    }
    *ret = list;
    return unique;
}

void pb_archive_status(struct pb_archive *a, struct pb_archive_status *ret)
{
    pthread_mutex_lock(&a->index);
    *ret = a->status;
    ret->bytes = a->lake.bytes;
    pthread_mutex_unlock(&a->index);
}
