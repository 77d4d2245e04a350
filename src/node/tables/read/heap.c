#include "node/tables/read/heap.h"

/* Each is read whole: a question about a machine full of them is rather a mistake. */
#define PROCESSES_MAX 16
/* Copies in memory; the node has a limit of its own. */
#define MEMORY_MAX (UINT64_C(512) << 20)

int pb_live_heap(struct pb_node *n, const struct pb_scope *scope, const char *table,
                 size_t containers, struct pb_rows *rows,
                 void (*add)(struct pb_node *, const struct pb_live_process *,
                             const struct pb_heap *, struct pb_rows *),
                 struct pb_err *err)
{
    const struct pb_heap_opts o = {.containers = containers, .own = containers > 0,
                                   .memory_max = MEMORY_MAX, .deadline_ns = rows->deadline_ns,
                                   .cancelled = rows->cancelled};
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_live_process *v = NULL;
    size_t count;
    int rc = 0;

    if (scope->no_look) {
        rows->notice = "objects of processes need a token of scope look";
        return 0;
    }
    count = pb_live_processes(n, scope, true, &a, &v);
    if (count > PROCESSES_MAX)
        rc = pb_err_set(err, PB_FAIL,
                        "%s reads the memory of each process, and there are %zu: name one, "
                        "probing PID query …",
                        table, count);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        struct pb_arena own = PB_ARENA_INIT;
        struct pb_err ignored = {0};
        struct pb_target *t;
        struct pb_heap h;

        if (pb_target_open(&t, v[i].pid, NULL, &ignored) == 0) {
            if (pb_heap_read(t, &o, &own, &h, &ignored) == 0) {
                add(n, &v[i], &h, rows);
                if (h.note && !rows->notice)
                    rows->notice = pb_arena_printf(&rows->arena, "%s: process %d: %s", table,
                                                   (int)v[i].pid, h.note);
            }
            pb_target_close(t);
        }
        pb_arena_finish(&own);
    }
    pb_arena_finish(&a);
    return rc;
}
