/*
 * python.envs - environment variables of Python processes as they were at their start; what looks
 * like a secret is masked.
 */
#include <string.h>

#include "host/process/proc.h"
#include "host/text/secret.h"
#include "node/tables/read/common.h"

static pb_live_fill fill;

#define COLUMNS(X)                                                                                 \
    X(name, NAME, "", "variable")                                                                  \
    X(value, TEXT, "", "value of the variable at the start; secrets are shown as ***")             \
    PB_LIVE_COMMON(X)

PB_TABLE_COLUMNS(COLUMNS);

const struct pb_live pb_live_python_envs = {
    PB_TABLE_SPEC("python.envs",
                  "environment variables at the start of each process, secrets masked"),
    .fill = fill,
};

static void add_process(struct pb_node *n, const struct pb_live_process *p, struct pb_rows *rows)
{
    struct pb_arena a = PB_ARENA_INIT;
    size_t len = 0;
    char *block = pb_proc_read(p->pid, "environ", &a, &len), *end = block + len;

    for (char *s = block; s && s < end; s += strlen(s) + 1) {
        char *equals = strchr(s, '=');
        struct pb_row_cell *row;

        if (!equals || equals == s)
            continue;
        row = pb_rows_add(rows);
        *equals = '\0';
        pb_rows_text(rows, row, AT_name, s);
        pb_rows_text(rows, row, AT_value, pb_secret_env(s, equals + 1, &a));
        *equals = '=';
        pb_live_common(rows, row, n->host, p->pid, p->rank);
    }
    pb_arena_finish(&a);
}

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_live_process *v = NULL;
    size_t count;

    (void)err;
    if (scope->no_look) {
        rows->notice = "python.envs is empty: environments need a token of scope look";
        return 0;
    }
    count = pb_live_processes(n, scope, wanted[AT_rank], &a, &v);
    for (size_t i = 0; i < count; i++)
        add_process(n, &v[i], rows);
    pb_arena_finish(&a);
    return 0;
}
