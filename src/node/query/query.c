#include "node/query/query.h"

#include <string.h>

#include "node/parts.h"
#include "node/query/why.h"
#include "node/sql/duck.h"
#include "node/sql/rewrite.h"

int pb_query_run(struct pb_node *n, const struct pb_query *q, bool quiet, struct pb_sql_done *ret,
                 struct pb_sql_error *err)
{
    int rc = pb_sql_run(n->sql, q, ret, err);

    if (rc == 0 && !quiet)
        pb_why_empty(n, q->scope, q->sql, ret);
    return rc;
}

bool pb_query_library(char *buf, size_t cap)
{
    return pb_duck_find(buf, cap);
}

bool pb_query_reads_tables(const char *sql)
{
    return pb_rewrite_has_from(sql, strlen(sql));
}
