/* SQL as text: whatever the bytes are, tokens move on, places stay inside, edits can be undone. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "node/sql/rewrite.h"
#include "node/sql/text/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap);

size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap)
{
    static const char *const seeds[] = {
        "select a, 'it''s', \"q\"\"x\", avg(x) from system.cpu where t > now() - 60 order by 1; "
        "show tables; describe python.memory",
        "explain (format json) select $a$ ; $a$ /* x /* y */ */ -- z\n from read_csv('x') union "
        "select E'\\'' , 1e+5 from (select b, max(c) from system . io) group by all",
    };
    size_t n;

    if (index < 0 || (size_t)index >= sizeof seeds / sizeof *seeds)
        return 0;
    n = strlen(seeds[index]);
    memcpy(buf, seeds[index], n < cap ? n : cap);
    return n < cap ? n : cap;
}

static void must(int what)
{
    if (!what)
        abort();
}

static void edit(const char *sql, size_t len, size_t at)
{
    struct pb_sql_edited e = {0};
    struct pb_catalog none = {0};
    struct pb_buf names = PB_BUF_INIT, select = PB_BUF_INIT;

    pb_buf_add(&e.text, sql, len);
    pb_rewrite_qualify(&e, &none);
    pb_rewrite_group(&e, at, &names);
    must(e.text.len >= len);
    for (size_t i = 0; i <= e.text.len; i++)
        must(pb_sql_origin(&e, i) <= len);
    must(pb_sql_origin(&e, e.text.len) == len);
    pb_rewrite_describe(sql, len, &none, &select);
    pb_buf_finish(&names);
    pb_buf_finish(&select);
    pb_sql_edited_finish(&e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *sql = malloc(size + 1);
    size_t pos = 0, at = 0, before = 0, n, end = 0;
    struct pb_sql_token t;
    char name[32];

    memcpy(sql, data, size);
    sql[size] = 0;
    size = strlen(sql);
    while ((t = pb_sql_next(sql, size, &pos)).kind != PB_SQL_END) {
        must(pos > before && t.len > 0 && t.at + t.len <= size && t.at >= end);
        before = pos;
        end = t.at + t.len;
        pb_sql_name_at(sql, size, t.at, name, sizeof name);
        pb_sql_name(sql, t, name, sizeof name);
    }
    for (pos = 0; (n = pb_sql_statement(sql, size, &pos, &at)) > 0;) {
        must(at + n <= size);
        edit(sql + at, n, size % n);
    }
    free(sql);
    return 0;
}
