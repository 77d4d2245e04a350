#include "node/sql/settings.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "host/text/nearest.h"
#include "node/sql/internal.h"
#include "node/sql/text/text.h"

static const struct pb_column_spec columns[] = {
    {"name", PB_NAME, "", "name of the setting, without probing."},
    {"value", PB_NAME, "", "its value"},
};

static void add_row(struct pb_rows *rows, int index, const struct pb_settings *s)
{
    char value[PB_SETTING_VALUE_MAX], name[PB_SETTING_NAME_MAX + 8];
    struct pb_row_cell *row = pb_rows_add(rows);

    pb_settings_show(s, index, value);
    snprintf(name, sizeof name, "probing.%s", pb_setting_list[index].name);
    pb_rows_text(rows, row, 0, name);
    pb_rows_text(rows, row, 1, value);
}

static int unknown(const char *name, long at, long *ret_at, struct pb_err *err)
{
    const char *best = pb_nearest_setting(name);

    *ret_at = at;
    return pb_err_set(err, PB_FAIL, "unknown setting '%s'%s%s%s", name,
                      best ? ". Did you mean '" : "", best ? best : "", best ? "'?" : "");
}

/* The rest of the text, without quotes or blanks around it. */
static void parse_value(const char *sql, size_t len, size_t pos, char *buf, size_t cap)
{
    size_t n;

    while (pos < len && strchr(" \t\r\n", sql[pos]))
        pos++;
    while (len > pos && strchr(" \t\r\n;", sql[len - 1]))
        len--;
    if (len - pos >= 2 && (sql[pos] == '\'' || sql[pos] == '"') && sql[len - 1] == sql[pos]) {
        pos++;
        len--;
    }
    n = len - pos < cap - 1 ? len - pos : cap - 1;
    memcpy(buf, sql + pos, n);
    buf[n] = 0;
}

static int set_one(struct pb_sql *s, const struct pb_scope *scope, const char *sql, size_t len,
                   size_t pos, long *ret_at, struct pb_err *err)
{
    char name[PB_SETTING_NAME_MAX], value[128];
    struct pb_buf line = PB_BUF_INIT;
    struct pb_sql_token t;
    long at = (long)pb_sql_peek(sql, len, pos).at;
    int rc;

    pb_sql_name_at(sql, len, pos, name, sizeof name);
    do {
        t = pb_sql_next(sql, len, &pos);
    } while (t.kind != PB_SQL_END && !pb_sql_is(sql, t, "=") && !pb_sql_is(sql, t, "to"));
    if (t.kind == PB_SQL_END) {
        *ret_at = at;
        return pb_err_set(err, PB_FAIL, "SET %s: no value", name);
    }
    parse_value(sql, len, pos, value, sizeof value);
    if (pb_settings_find(name, strlen(name)) < 0)
        return unknown(name, at, ret_at, err);
    if (!s->with.settings)
        return pb_err_set(err, PB_FAIL, "settings cannot be changed here");
    pb_buf_printf(&line, "%s=%s", name, value);
    *ret_at = (long)pb_sql_peek(sql, len, pos).at;
    rc = s->with.settings->write(s->with.node, scope, line.data, err);
    pb_buf_finish(&line);
    return rc < 0 ? -1 : 1;
}

static int show(struct pb_sql *s, const struct pb_scope *scope, int index, struct pb_rows *ret,
                struct pb_err *err)
{
    struct pb_settings values;

    pb_settings_init(&values);
    if (s->with.settings && s->with.settings->read(s->with.node, scope, &values, err) < 0)
        return -1;
    pb_rows_init(ret, columns, sizeof columns / sizeof *columns);
    for (int i = 0; i < PB_SETTING_COUNT; i++)
        if (index < 0 || i == index)
            add_row(ret, i, &values);
    return 1;
}

int pb_sql_setting_statement(struct pb_sql *s, const struct pb_scope *scope, const char *sql,
                             size_t len, bool is_table, struct pb_rows *ret, long *ret_at,
                             struct pb_err *err)
{
    size_t pos = 0, after;
    struct pb_sql_token first = pb_sql_next(sql, len, &pos), second;
    bool is_set = pb_sql_is(sql, first, "set"), is_show = pb_sql_is(sql, first, "show");
    char name[PB_SETTING_NAME_MAX];
    int index;

    *ret_at = -1;
    if (!is_set && !is_show)
        return 0;
    after = pos;
    second = pb_sql_next(sql, len, &after);
    pb_sql_name_at(sql, len, pos, name, sizeof name);
    index = pb_settings_find(name, strlen(name));
    if (is_set) {
        pb_rows_init(ret, NULL, 0);
        return set_one(s, scope, sql, len, pos, ret_at, err);
    }
    if (pb_sql_is(sql, second, "all") && pb_sql_peek(sql, len, after).kind == PB_SQL_END)
        return show(s, scope, -1, ret, err);
    if (index >= 0)
        return show(s, scope, index, ret, err);
    if (!is_table && strncasecmp(name, "probing.", 8) == 0)
        return unknown(name, (long)second.at, ret_at, err);
    return 0;
}
