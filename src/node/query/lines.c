#include "node/query/lines.h"

#include <string.h>

/* Lines as they come, whole. */
struct lines {
    struct pb_buf rest;
    pb_query_take *take;
    void *arg;
    struct pb_err *err;
};

static int split(const void *data, size_t len, void *arg)
{
    struct lines *l = arg;
    const char *at = data, *end = at + len, *stop;

    for (; (stop = memchr(at, '\n', (size_t)(end - at))); at = stop + 1) {
        int rc;

        if (!l->rest.len) {
            rc = l->take(l->arg, at, (size_t)(stop - at), l->err);
        } else {
            pb_buf_add(&l->rest, at, (size_t)(stop - at));
            rc = l->take(l->arg, l->rest.data, l->rest.len, l->err);
            pb_buf_clear(&l->rest);
        }
        if (rc < 0)
            return -1;
    }
    if (at < end)
        pb_buf_add(&l->rest, at, (size_t)(end - at));
    return 0;
}

int pb_query_lines(struct pb_node *n, const struct pb_query *q, pb_query_take *take, void *arg,
                   bool *ret_truncated, struct pb_err *err)
{
    struct lines l = {.rest = PB_BUF_INIT, .take = take, .arg = arg, .err = err};
    struct pb_query query = *q;
    struct pb_sql_error failed = {0};
    struct pb_sql_done done = {0};
    int rc;

    query.format = PB_FORMAT_ROWS;
    query.sink = split;
    query.arg = &l;
    rc = pb_query_run(n, &query, true, &done, &failed);
    if (ret_truncated)
        *ret_truncated = done.truncated;
    pb_buf_finish(&done.notices);
    pb_buf_finish(&l.rest);
    if (rc < 0 && err->code == PB_OK)
        *err = failed.err;
    return rc;
}
