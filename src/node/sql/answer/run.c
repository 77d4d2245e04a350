/* A query: its statements one after the other, each answer into the sink. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "node/sql/answer/output.h"
#include "node/sql/settings.h"
#include "node/sql/statement.h"
#include "node/sql/answer/titles.h"
#include "node/sql/answer/units.h"
#include "node/watchdog/journal.h"

#define COUNT_NS 200000000u

/* Times that a statement is run again when the engine fails. */
enum { AGAIN_MAX = 3 };

struct run {
    struct pb_sql *sql;
    const struct pb_query *query;
    struct pb_arena arena;
    struct pb_output output;
    struct pb_sql_done *done;
    struct pb_sql_error *err;
    uint64_t deadline_ns;
    int64_t timeout_ms;
    int entry; /* in the node's journal */
};

/* What max_rows left out, as far as that can be said at once. An error there changes nothing. */
static void count_rest(struct run *r, struct pb_statement *st)
{
    uint64_t until = pb_clock_ns() + COUNT_NS, n = 1, rest = 0;
    duckdb_data_chunk chunk = NULL;

    while (n > 0 && pb_clock_ns() < until) {
        chunk = r->sql->duck->fetch_chunk(st->result);
        n = chunk ? r->sql->duck->data_chunk_get_size(chunk) : 0;
        rest += n;
        if (chunk)
            r->sql->duck->destroy_data_chunk(&chunk);
    }
    if (n > 0 || *pb_statement_said(st))
        r->done->left_out = PB_SQL_UNKNOWN;
    else if (r->done->left_out != PB_SQL_UNKNOWN)
        r->done->left_out += rest;
}

static int fetch_all(struct run *r, struct pb_statement *st)
{
    duckdb_data_chunk chunk;
    bool failed = false;
    int rc = 0;

    while (rc == 0 && (chunk = pb_statement_fetch(st, &failed))) {
        if (r->sql->duck->data_chunk_get_size(chunk) == 0) {
            r->sql->duck->destroy_data_chunk(&chunk);
            break;
        }
        rc = pb_output_chunk(&r->output, chunk, &r->err->err);
        r->sql->duck->destroy_data_chunk(&chunk);
    }
    if (rc > 0)
        count_rest(r, st);
    return failed || rc < 0 ? -1 : pb_output_end(&r->output, &r->err->err);
}

static int stream_file(struct run *r, const char *path)
{
    char buf[64 << 10];
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
    ssize_t n;

    if (fd < 0)
        return pb_err_set(&r->err->err, PB_FAIL, "%s: %s", path, strerror(errno));
    while (rc == 0 && (n = read(fd, buf, sizeof buf)) > 0)
        rc = pb_output_raw(&r->output, buf, (size_t)n, &r->err->err);
    close(fd);
    return rc;
}

/* " AS answer (…)": names for the columns of what was prepared, when some are not the engine's. */
static void put_titles(struct run *r, struct pb_statement *st, const char *const *titles,
                       struct pb_buf *b)
{
    size_t n = r->sql->duck->prepared_statement_column_count(st->prepared);

    for (size_t i = 0; titles && i < n; i++) {
        pb_buf_puts(b, i ? ", " : " AS answer (");
        pb_sql_ident(b, titles[i] ? titles[i] : pb_statement_column(st, i));
    }
    if (titles && n)
        pb_buf_putc(b, ')');
}

/* One column of the outer statement; what it was, if it is cast. */
static const char *put_cast(struct run *r, struct pb_statement *st, size_t i, struct pb_buf *b)
{
    const struct pb_duck *d = r->sql->duck;
    duckdb_logical_type type = d->prepared_statement_column_logical_type(st->prepared, i);
    struct pb_buf name = PB_BUF_INIT;
    struct pb_value_type t;
    const char *was = NULL;

    pb_value_type_init(&t, type);
    pb_buf_puts(b, i ? ", " : "SELECT ");
    if (pb_value_type_is_common(&t)) {
        pb_buf_printf(b, "c%zu", i);
    } else {
        pb_buf_printf(b, "CAST(c%zu AS ", i);
        pb_value_type_cast(&t, b);
        pb_buf_putc(b, ')');
        pb_value_type_name(&t, &name);
        was = pb_arena_strdup(&st->arena, name.data);
    }
    pb_buf_puts(b, " AS ");
    pb_sql_ident(b, pb_statement_column(st, i));
    pb_value_type_finish(&t);
    pb_buf_finish(&name);
    d->destroy_logical_type(&type);
    return was;
}

/* Has the engine itself write values of types that are not common here. *ret_types: of those. */
static int cast_rest(struct run *r, struct pb_statement *st, const char *const **ret_types)
{
    size_t n = r->sql->duck->prepared_statement_column_count(st->prepared);
    const char **types = PB_NEW_N(&st->arena, const char *, n + 1);
    struct pb_buf b = PB_BUF_INIT;
    bool any = false;
    int rc = 0;

    *ret_types = NULL;
    for (size_t i = 0; i < n; i++) {
        types[i] = put_cast(r, st, i, &b);
        any |= types[i] != NULL;
    }
    if (any) {
        pb_buf_printf(&b, " FROM (%s\n) AS answer (", st->text.text.data);
        for (size_t i = 0; i < n; i++)
            pb_buf_printf(&b, "%sc%zu", i ? ", " : "", i);
        pb_buf_putc(&b, ')');
        rc = pb_statement_replace(st, b.data);
        *ret_types = types;
    }
    pb_buf_finish(&b);
    return rc;
}

/* The engine writes Parquet to files only: into our folder, then out and away. */
static int run_parquet(struct run *r, struct pb_statement *st, const char *const *titles)
{
    struct pb_buf b = PB_BUF_INIT;
    duckdb_data_chunk chunk;
    bool failed = false;
    char path[sizeof r->sql->tmp + 64];
    int rc;

    snprintf(path, sizeof path, "%s/answer-%ld-%llx.parquet", r->sql->tmp, (long)getpid(),
             (unsigned long long)pb_clock_ns());
    pb_buf_printf(&b, "COPY (SELECT * FROM (%s\n)", st->text.text.data);
    put_titles(r, st, titles, &b);
    if (r->query->max_rows)
        pb_buf_printf(&b, " LIMIT %llu", (unsigned long long)r->query->max_rows);
    pb_buf_puts(&b, ") TO ");
    pb_sql_literal(&b, path);
    pb_buf_puts(&b, " (FORMAT parquet, COMPRESSION zstd)");
    rc = pb_statement_replace(st, b.data) < 0 || pb_statement_start(st) < 0 ? -1 : 0;
    if (rc == 0) {
        chunk = pb_statement_fetch(st, &failed);
        if (chunk && r->sql->duck->data_chunk_get_size(chunk) == 1)
            r->done->rows += *(uint64_t *)r->sql->duck->vector_get_data(
                r->sql->duck->data_chunk_get_vector(chunk, 0));
        if (chunk)
            r->sql->duck->destroy_data_chunk(&chunk);
        rc = failed ? -1 : stream_file(r, path);
    }
    unlink(path);
    pb_buf_finish(&b);
    return rc;
}

/* Are the columns what whoever asks takes them for? */
static int check_columns(struct run *r, struct pb_statement *st)
{
    const struct pb_query *q = r->query;
    const char *more = q->columns && st->locked
                           ? pb_elsewhere_missing(&r->sql->catalog, q->columns, &st->arena)
                           : NULL;
    struct pb_buf b = PB_BUF_INIT;
    int rc = 0;

    if (more)
        return pb_err_set(&r->err->err, PB_FAIL, PB_SQL_OTHER_COLUMNS ": %.180s", more);
    if (!q->types)
        return 0;
    pb_value_types(st->prepared, &b);
    if (strcmp(b.data ? b.data : "", q->types) != 0)
        rc = pb_err_set(&r->err->err, PB_FAIL,
                        PB_SQL_OTHER_COLUMNS ": %.180s here, where %.180s is wanted", b.data,
                        q->types);
    pb_buf_finish(&b);
    return rc;
}

/* Units of the columns of what was prepared, for a table that people read. */
static const char *const *find_units(struct run *r, struct pb_statement *st,
                                     const char *const *titles)
{
    size_t n = r->sql->duck->prepared_statement_column_count(st->prepared);
    const char **units = PB_NEW_N(&st->arena, const char *, n + 1);
    struct pb_units u;

    if (r->query->format != PB_FORMAT_ROWS || !st->locked)
        return NULL;
    pb_units_init(&u, &r->sql->catalog, st->text.text.data, st->text.text.len);
    for (size_t i = 0; i < n; i++) {
        const char *unit =
            pb_units_of(&u, titles && titles[i] ? titles[i] : pb_statement_column(st, i));

        units[i] = unit ? pb_arena_strdup(&st->arena, unit) : NULL;
    }
    return units;
}

/* Views over answers of other nodes, for this connection and statement alone. */
static int make_gathered(struct run *r, struct pb_statement *st)
{
    const struct pb_sql_gathered *g = r->query->gathered;
    int rc = 0;

    for (size_t i = 0; g && rc == 0 && i < g->nviews; i++)
        rc = pb_sql_exec(r->sql, st->conn,
                         pb_arena_printf(&st->arena, "CREATE OR REPLACE TEMP VIEW %s AS %s",
                                         g->views[i][0], g->views[i][1]), &r->err->err);
    return rc;
}

static void drop_gathered(struct run *r, struct pb_statement *st)
{
    const struct pb_sql_gathered *g = r->query->gathered;

    if (!g || !st->conn)
        return;
    pb_statement_end_reading(st);
    for (size_t i = g->nviews; i > 0; i--)
        pb_sql_exec(r->sql, st->conn,
                    pb_arena_printf(&st->arena, "DROP VIEW IF EXISTS %s", g->views[i - 1][0]),
                    &(struct pb_err){0});
}

/* What was stopped in time may be a statement of ours, which knows nothing of the time. */
static void explain_stop(struct pb_sql_error *e, const struct pb_sql_task *t)
{
    if (!strstr(e->err.msg, "SQL engine: ") || t->broke)
        return;
    if (t->cancelled && atomic_load(t->cancelled))
        e->err = (struct pb_err){.code = PB_TIMEOUT, .msg = "cancelled"};
    else if (pb_clock_ns() >= t->deadline_ns)
        pb_sql_late(t, false, &e->err);
}

/* *ret_broke: the engine's database was of no more use. */
static int run_once(struct run *r, const char *sql, size_t len, size_t base, bool *ret_broke)
{
    struct pb_sql_task task = {
        .sql = r->sql,
        .scope = r->query->scope,
        .deadline_ns = r->deadline_ns,
        .cancelled = r->query->cancelled,
        .query = r->query,
        .timeout_ms = r->timeout_ms,
        .entry = r->entry,
        .notices = &r->done->notices,
    };
    struct pb_statement st;
    const char *const *titles, *const *types;
    int rc = -1;

    if (pb_statement_open(&st, r->sql, &task, sql, len, base, r->err) < 0 ||
        make_gathered(r, &st) < 0 || pb_statement_prepare(&st) < 0 ||
        check_columns(r, &st) < 0)
        goto out;
    titles = r->query->gathered
                 ? r->query->gathered->titles
                 : pb_titles_find(&st.arena, sql, len,
                                  r->sql->duck->prepared_statement_column_count(st.prepared));
    if (r->query->format == PB_FORMAT_PARQUET) {
        rc = run_parquet(r, &st, titles);
        goto out;
    }
    r->output.units = find_units(r, &st, titles);
    if (cast_rest(r, &st, &types) < 0 || pb_statement_start(&st) < 0)
        goto out;
    pb_output_begin(&r->output, &st.result, titles, types);
    rc = fetch_all(r, &st);
out:
    r->output.units = NULL;
    if (rc < 0)
        explain_stop(r->err, &st.task);
    drop_gathered(r, &st);
    *ret_broke = st.task.broke;
    pb_statement_close(&st);
    return rc;
}

/* As if nothing had been answered; nothing was sent. */
static void take_back(struct run *r, const struct run *before)
{
    struct pb_buf notices = r->done->notices;

    pb_buf_cut(&r->output.buf, before->output.buf.len);
    r->output.first_statement = before->output.first_statement;
    *r->done = *before->done;
    r->done->notices = notices;
    *r->err = *before->err;
}

/* A statement that met a fault of the engine, its own or another's, is run again. */
static int run_statement(struct run *r, const char *sql, size_t len, size_t base)
{
    struct pb_sql_done done = *r->done;
    struct pb_sql_error err = *r->err;
    struct run before = *r;
    bool broke;
    int rc;

    before.done = &done;
    before.err = &err;
    for (int tries = 0;; tries++) {
        rc = run_once(r, sql, len, base, &broke);
        if (rc == 0 || !broke || tries == AGAIN_MAX || r->done->bytes != done.bytes ||
            pb_clock_ns() >= r->deadline_ns)
            return rc;
        take_back(r, &before);
        if (pb_sql_warm(r->sql, &r->err->err) < 0)
            return -1;
    }
}

/* SET and SHOW of settings never reach the engine. */
static int run_setting(struct run *r, const char *sql, size_t len, size_t base)
{
    struct pb_rows rows = {0};
    char name[PB_RING_NAME];
    bool is_table;
    size_t pos = 0;
    long at = -1;
    int rc;

    pb_sql_next(sql, len, &pos);
    pb_sql_name_at(sql, len, pos, name, sizeof name);
    pthread_rwlock_rdlock(&r->sql->catalog_lock);
    is_table = pb_catalog_is_known(name) || pb_catalog_find(&r->sql->catalog, name);
    pthread_rwlock_unlock(&r->sql->catalog_lock);
    rc = pb_sql_setting_statement(r->sql, r->query->scope, sql, len, is_table, &rows, &at,
                                  &r->err->err);
    if (rc < 0 && at >= 0)
        r->err->at = (long)base + at;
    if (rc > 0 && r->query->format == PB_FORMAT_PARQUET)
        rc = pb_err_set(&r->err->err, PB_FAIL, "settings have no Parquet form");
    else if (rc > 0)
        rc = pb_output_rows(&r->output, &rows, &r->err->err) < 0 ? -1 : 1;
    pb_rows_finish(&rows);
    return rc;
}

static int run_all(struct run *r)
{
    size_t len = strlen(r->query->sql), pos = 0, at, n;
    char *sql = pb_arena_strndup(&r->arena, r->query->sql, len);
    int rc = 0;

    pb_sql_plain_blanks(sql, len);
    for (r->err->statement = 0; (n = pb_sql_statement(sql, len, &pos, &at)) > 0;
         r->err->statement++) {
        if (r->query->format == PB_FORMAT_PARQUET && r->err->statement > 0)
            return pb_err_set(&r->err->err, PB_FAIL, "Parquet holds one statement's answer only");
        rc = run_setting(r, sql + at, n, at);
        if (rc == 0)
            rc = run_statement(r, sql + at, n, at);
        if (rc < 0)
            return -1;
    }
    if (r->err->statement == 0)
        return pb_err_set(&r->err->err, PB_FAIL, "no statement");
    return 0;
}

/* A query that ended a server does not get at the next one. */
static int run_noted(struct run *r)
{
    struct pb_journal *j = r->sql->with.journal;
    char why[160];
    int rc;

    if (pb_journal_refused(j, r->query->sql, why, sizeof why))
        return pb_err_set(&r->err->err, PB_FAIL, "refused: this query %s; ask another way", why);
    r->entry = pb_journal_begin_query(j, r->query->sql);
    rc = run_all(r);
    pb_journal_end(j, r->entry);
    return rc;
}

int pb_sql_run(struct pb_sql *s, const struct pb_query *q, struct pb_sql_done *ret,
               struct pb_sql_error *err)
{
    struct run r = {.sql = s, .query = q, .done = ret, .err = err};
    uint64_t start = pb_clock_ns();
    struct pb_settings settings;
    int64_t timeout_ms = q->timeout_ms;
    int rc;

    *ret = (struct pb_sql_done){0};
    *err = (struct pb_sql_error){.at = -1};
    if (pb_sql_warm(s, &err->err) < 0)
        return -1;
    if (timeout_ms <= 0) {
        pb_sql_read_settings(s, NULL, &settings);
        timeout_ms = settings.v[PB_SET_QUERY_TIMEOUT];
    }
    r.timeout_ms = timeout_ms;
    r.deadline_ns = start + (uint64_t)timeout_ms * 1000000u;
    pb_output_init(&r.output, q, ret);
    rc = run_noted(&r);
    pb_output_finish(&r.output);
    pb_arena_finish(&r.arena);
    ret->ms = (double)(pb_clock_ns() - start) / 1e6;
    atomic_fetch_add(&s->counts.queries, 1);
    atomic_fetch_add(&s->counts.rows, ret->rows);
    atomic_fetch_add(&s->counts.bytes, ret->bytes);
    return rc;
}
