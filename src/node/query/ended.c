#include "node/query/ended.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/home.h"
#include "host/text/secret.h"
#include "node/archive/lake.h"
#include "node/parts.h"

static struct pb_ended *find(struct pb_ended_list *l, const char *id)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->v[i].id, id) == 0)
            return &l->v[i];
    if (l->n == l->cap) {
        size_t more = l->cap ? l->cap * 2 : 32;

        l->v = pb_arena_grow(l->arena, l->v, l->cap * sizeof *l->v, more * sizeof *l->v);
        l->cap = more;
    }
    l->v[l->n] = (struct pb_ended){.id = pb_arena_strdup(l->arena, id), .host = "", .rank = -1};
    return &l->v[l->n++];
}

static void add_rows(struct pb_ended_list *l, struct pb_ended *d, const char *table, uint64_t rows)
{
    size_t i = 0;

    d->rows += rows;
    while (i < d->tables && strcmp(d->names[i], table) != 0)
        i++;
    if (i < d->tables)
        return;
    if ((d->tables & (d->tables + 1)) == 0) /* full at 0, 1, 3, 7, … */
        d->names = pb_arena_grow(l->arena, d->names, d->tables * sizeof *d->names,
                                 (d->tables * 2 + 1) * sizeof *d->names);
    d->names[d->tables++] = pb_arena_strdup(l->arena, table);
}

/* Rings of a process: what is in files already is counted there. */
static void add_store(struct pb_ended_list *l, const struct pb_store *s)
{
    const char *state;
    struct pb_ended *d;
    bool killed;

    if (s->process.live || !s->nrings || pb_store_value(s->meta, "role", l->arena))
        return; /* a node's own folder is no job */
    d = find(l, s->process.id);
    d->host = pb_arena_strdup(l->arena, s->host);
    d->python = pb_store_value(s->meta, "python", l->arena);
    d->command = pb_store_value(s->meta, "command", l->arena);
    if (d->command)
        d->command = pb_secret_text(d->command, l->arena);
    d->rank = s->rank;
    d->ended_ns = s->process.until_ns == INT64_MAX ? 0 : s->process.until_ns;
    d->how = pb_store_end(s, l->arena, &killed);
    state = pb_store_value(s->status, "agent.state", l->arena);
    d->later = state && strcmp(state, "ejected") == 0 && !*s->end;
    for (size_t i = 0; i < s->nrings; i++) {
        uint64_t first, next, sealed = atomic_load(&s->rings[i]->sealed);

        pb_reader_range(&s->rings[i]->reader, &first, &next);
        first = first > sealed ? first : sealed;
        add_rows(l, d, s->rings[i]->reader.name, next > first ? next - first : 0);
    }
}

static bool is_live(const struct pb_stores *stores, const char *id)
{
    for (size_t i = 0; i < stores->nstores; i++)
        if (stores->stores[i]->process.live && strcmp(stores->stores[i]->process.id, id) == 0)
            return true;
    return false;
}

/* Probes were taken out of it, and it runs on. */
static bool runs_here(const char *host, const char *id)
{
    const char *dash = strchr(id, '-');
    char own[256] = "";

    gethostname(own, sizeof own - 1);
    return dash && strcmp(host, own) == 0 &&
           pb_home_start_time((pid_t)strtol(id, NULL, 10)) == strtoull(dash + 1, NULL, 10);
}

static int add_history(struct pb_ended_list *l, const struct pb_stores *stores,
                       const char *data_dir, struct pb_err *err)
{
    struct pb_finds finds = {0};
    int rc = pb_lake_scan(pb_arena_printf(l->arena, "%s/lake", data_dir), NULL, &finds, err);

    for (size_t i = 0; rc == 0 && i < finds.n; i++) {
        const struct pb_series_id *key = &finds.found[i].key;
        const struct pb_part *part = &finds.found[i].part;
        struct pb_ended *d;

        /* What a node measures lies under its own number: rows about others. */
        if (strncmp(key->table, "system.", 7) == 0 || strncmp(key->table, "gpu.", 4) == 0 ||
            is_live(stores, key->process) || runs_here(key->host, key->process))
            continue;
        d = find(l, key->process);
        if (!*d->host)
            d->host = pb_arena_strdup(l->arena, key->host);
        if (!d->command && part->last_ns > d->ended_ns) {
            d->ended_ns = part->last_ns;
            d->later = true;
        }
        add_rows(l, d, key->table, part->rows);
    }
    pb_finds_finish(&finds);
    return rc;
}

static int by_end(const void *a, const void *b)
{
    const struct pb_ended *x = a, *y = b;

    return (x->ended_ns < y->ended_ns) - (x->ended_ns > y->ended_ns);
}

int pb_ended_read(struct pb_ended_list *ret, const char *store_dir, const char *data_dir,
                  struct pb_arena *a, struct pb_err *err)
{
    struct pb_node_opts o = {.store_dir = store_dir, .data_dir = data_dir};
    struct pb_stores *stores;
    struct pb_node *node;
    int rc;

    *ret = (struct pb_ended_list){.arena = a};
    if (pb_node_create(&node, &o, err) < 0)
        return -1;
    stores = pb_discover_snapshot(node->discover, -1);
    for (size_t i = 0; i < stores->nstores; i++)
        add_store(ret, stores->stores[i]);
    rc = add_history(ret, stores, data_dir, err);
    pb_stores_unref(stores);
    pb_node_destroy(node);
    if (ret->n)
        qsort(ret->v, ret->n, sizeof *ret->v, by_end);
    return rc;
}
