#include "node/tables/read/common.h"

#include <stdlib.h>
#include <string.h>

#include "host/process/rank.h"
#include "node/discover/pythons.h"

#define STACKS_TIMEOUT_MS 5000

/* What its agent said, else what its environment does. */
static int64_t rank_of(const struct pb_stores *stores, pid_t pid, uint64_t start)
{
    struct pb_arena scratch = PB_ARENA_INIT;
    long rank = -1, world;

    for (size_t i = 0; i < stores->nstores; i++) {
        const struct pb_store *s = stores->stores[i];

        if (s->process.pid == pid && s->process.start == start && s->rank >= 0)
            return s->rank;
    }
    pb_rank_read(pid, &scratch, &rank, &world);
    pb_arena_finish(&scratch);
    return rank;
}

size_t pb_live_processes(struct pb_node *n, const struct pb_scope *s, bool ranks,
                         struct pb_arena *a, struct pb_live_process **ret)
{
    struct pb_stores *stores;
    struct pb_live_process *v;
    struct pb_python *pythons;
    size_t count = 0, found;

    if (n->opts.store_dir)
        return 0; /* what was copied does not run here */
    found = pb_scope_is_node(s) ? pb_pythons_list(n->pythons, a, &pythons) : s->nprocesses;
    v = PB_NEW_N(a, struct pb_live_process, found + 1);
    for (size_t i = 0; i < found; i++) {
        if (pb_scope_is_node(s))
            v[count++] = (struct pb_live_process){pythons[i].pid, pythons[i].start, -1,
                                                  pythons[i].version};
        else if (s->processes[i].live)
            v[count++] = (struct pb_live_process){s->processes[i].pid, s->processes[i].start, -1,
                                                  ""};
    }
    if (ranks) {
        stores = pb_discover_snapshot(n->discover, 1000);
        for (size_t i = 0; i < count; i++)
            v[i].rank = rank_of(stores, v[i].pid, v[i].start);
        pb_stores_unref(stores);
    }
    *ret = v;
    return count;
}

bool pb_live_in_scope(const struct pb_scope *s, pid_t pid)
{
    for (size_t i = 0; !pb_scope_is_node(s) && i < s->nprocesses; i++)
        if (s->processes[i].live && s->processes[i].pid == pid)
            return true;
    return pb_scope_is_node(s);
}

void pb_live_common(struct pb_rows *rows, struct pb_row_cell *row, const char *host, pid_t pid,
                    int64_t rank)
{
    size_t at = pb_live_common_at(rows);

    pb_rows_text(rows, row, at, host);
    if (pid > 0)
        pb_rows_int(row, at + 1, pid);
    if (rank >= 0)
        pb_rows_int(row, at + 2, rank);
}

struct pb_stack_batch *pb_live_stacks(struct pb_node *n, const struct pb_live_process *v,
                                       size_t count, const struct pb_snapshot_opts *o)
{
    struct pb_stack_read *wanted = calloc(count + 1, sizeof *wanted);
    struct pb_stack_batch *b;

    for (size_t i = 0; wanted && i < count; i++) {
        wanted[i].pid = v[i].pid;
        wanted[i].start = v[i].start;
    }
    b = pb_stack_cache_read(n->stacks, wanted, wanted ? count : 0, o, STACKS_TIMEOUT_MS);
    free(wanted);
    return b;
}

void pb_live_table_name(struct pb_rows *rows, struct pb_row_cell *row, size_t at, const char *name)
{
    const char *point = strchr(name, '.');

    pb_rows_text(rows, row, at, name);
    pb_rows_text(rows, row, at + 1,
                 point ? pb_arena_strndup(&rows->arena, name, (size_t)(point - name)) : "main");
    pb_rows_text(rows, row, at + 2, point ? point + 1 : name);
}
