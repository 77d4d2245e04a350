/*
 * python.envs - environment variables of Python processes as they were at their start; what looks
 * like a secret is masked.
 */
#include <string.h>

#include "host/proc.h"
#include "host/secret.h"
#include "node/tables/common.h"

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err);

enum { NAME, VALUE };

static const struct pb_column_spec columns[] = {
    [NAME] = {"name", PB_NAME, "", "variable"},
    [VALUE] = {"value", PB_TEXT, "", "its value at the start; secrets are shown as ***"},
    PB_LIVE_COMMON,
};

const struct pb_live pb_live_python_envs = {
    .name = "python.envs",
    .doc = "environment variables at the start of each process, secrets masked",
    .columns = columns,
    .ncolumns = PB_COUNT_OF(columns),
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
        pb_rows_text(rows, row, NAME, s);
        pb_rows_text(rows, row, VALUE, pb_secret_env(s, equals + 1, &a));
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
    count = pb_live_processes(n, scope, wanted[PB_COUNT_OF(columns) - 1], &a, &v);
    for (size_t i = 0; i < count; i++)
        add_process(n, &v[i], rows);
    pb_arena_finish(&a);
    return 0;
}
