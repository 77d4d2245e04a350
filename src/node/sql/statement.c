#include "node/sql/statement.h"

#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "node/sql/admit.h"
#include "node/sql/error.h"
#include "node/sql/rewrite.h"

#define NAP_NS 20000
#define SHORT_NS 50000000 /* of a core, for a query that keeps its priority */
#define NAP_MAX_NS 500000
#define REASON_TRIES 3

static int refuse(struct pb_statement *st, const char *sql, struct pb_sql_token t)
{
    static const struct {
        const char *words, *why;
    } kinds[] = {
        {" insert update delete create alter drop merge truncate vacuum analyze comment ",
         "SQL here reads and changes nothing"},
        {" copy export import ", "SQL here reaches no files; `probing export` writes some"},
        {" attach detach use install load update_extensions ",
         "there are no other databases or extensions here"},
        {" pragma call checkpoint force reset ", "the engine is not to be changed"},
        {" prepare execute deallocate begin start commit rollback abort ",
         "each statement stands alone here"},
    };
    char word[32];
    size_t n = t.len < sizeof word - 3 ? t.len : sizeof word - 3;

    if (t.kind != PB_SQL_WORD)
        return 0;
    word[0] = ' ';
    for (size_t i = 0; i < n; i++)
        word[i + 1] = (char)(sql[t.at + i] | 32);
    word[n + 1] = ' ';
    word[n + 2] = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!strstr(kinds[i].words, word))
            continue;
        st->err->at = (long)(st->base + t.at);
        return pb_err_set(&st->err->err, PB_FAIL, "%.*s is refused: %s", (int)t.len, sql + t.at,
                          kinds[i].why);
    }
    return 0;
}

/*
 * Finds the statement behind EXPLAIN, and leaves in front of it nothing but the words that were
 * understood: what the engine sees there is what we saw.
 */
static int find_inner(struct pb_statement *st)
{
    char *sql = st->text.text.data;
    size_t len = st->text.text.len, pos = 0, end = 0;
    struct pb_sql_token t = pb_sql_next(sql, len, &pos);
    bool options = false;

    if (!pb_sql_is(sql, t, "explain"))
        return 0;
    for (;;) {
        memset(sql + end, ' ', t.at - end);
        end = pos;
        t = pb_sql_next(sql, len, &pos);
        if (!options && pb_sql_is(sql, t, "(")) {
            size_t after = pos;
            struct pb_sql_token first = pb_sql_next(sql, len, &after);

            options = pb_sql_is(sql, first, "analyze") || pb_sql_is(sql, first, "format") ||
                      pb_sql_is(sql, first, "verbose");
            if (!options)
                break;
        } else if (options) {
            if (t.kind != PB_SQL_WORD && !pb_sql_is(sql, t, ",") && !pb_sql_is(sql, t, ")"))
                break;
            options = !pb_sql_is(sql, t, ")");
        } else if (!pb_sql_is(sql, t, "analyze") && !pb_sql_is(sql, t, "verbose")) {
            break;
        }
    }
    st->inner = t.at;
    memset(sql + end, ' ', t.at - end);
    st->err->at = (long)(st->base + t.at);
    return options || t.kind == PB_SQL_END
               ? pb_err_set(&st->err->err, PB_FAIL, "EXPLAIN what? a SELECT must follow")
               : refuse(st, sql, t);
}

/* What is in files and rings, as of now. */
static void snapshot_stores(struct pb_statement *st, struct pb_archive_table **ret_files,
                            size_t *ret_nfiles)
{
    struct pb_archive *archive = st->sql->archive;

    *ret_nfiles = 0;
    *ret_files = NULL;
    if (archive) {
        pb_archive_begin(archive);
        st->begun = true;
        *ret_nfiles = pb_archive_tables(archive, &st->arena, ret_files);
    }
    if (st->sql->with.discover)
        st->task.stores = pb_discover_snapshot(st->sql->with.discover, 0);
}

/* Leaves the catalog locked for reading, with every view that the statement may need. */
static int lock_catalog(struct pb_statement *st, const struct pb_archive_table *files,
                        size_t nfiles)
{
    struct pb_sql *s = st->sql;
    struct pb_catalog *c = &s->catalog;
    const char *sql = st->text.text.data;
    size_t len = st->text.text.len;
    int rc = 0;

    pthread_rwlock_rdlock(&s->catalog_lock);
    if (pb_catalog_fits(c, st->task.stores, files, nfiles, &s->elsewhere) &&
        !pb_views_missing(s, sql, len)) {
        st->locked = true;
        return 0;
    }
    pthread_rwlock_unlock(&s->catalog_lock);
    pthread_rwlock_wrlock(&s->catalog_lock);
    /* What is made in a database that another one has replaced is not there for the next. */
    if (st->conn->generation != s->generation) {
        pthread_rwlock_unlock(&s->catalog_lock);
        st->task.broke = true;
        return pb_err_set(&st->err->err, PB_FAIL, "SQL engine: it was started again");
    }
    if (!pb_catalog_fits(c, st->task.stores, files, nfiles, &s->elsewhere)) {
        pb_catalog_build(c, st->task.stores, files, nfiles, &s->elsewhere, pb_views_learn,
                         &(struct pb_views_learner){s, st->conn});
        rc = pb_views_drop_stale(s, st->conn, &st->err->err);
    }
    if (rc == 0)
        rc = pb_views_make(s, st->conn, sql, len, &st->err->err);
    pthread_rwlock_unlock(&s->catalog_lock);
    if (rc < 0)
        return -1;
    pthread_rwlock_rdlock(&s->catalog_lock);
    st->locked = true;
    return 0;
}

/* DESCRIBE and SHOW TABLES become a SELECT over the engine's own lists. */
static int describe(struct pb_statement *st, const struct pb_archive_table *files, size_t nfiles)
{
    struct pb_buf b = PB_BUF_INIT;
    bool is_one = pb_rewrite_describe(st->text.text.data, st->text.text.len, &st->sql->catalog, &b);

    if (!is_one)
        return 0;
    pb_buf_finish(&st->text.text);
    st->text.text = b;
    pthread_rwlock_unlock(&st->sql->catalog_lock);
    st->locked = false;
    return lock_catalog(st, files, nfiles);
}

int pb_statement_open(struct pb_statement *st, struct pb_sql *s, const struct pb_sql_task *task,
                      const char *sql, size_t len, size_t base, struct pb_sql_error *err)
{
    struct pb_archive_table *files = NULL;
    size_t nfiles = 0;

    *st = (struct pb_statement){.sql = s, .task = *task, .base = base, .err = err};
    pthread_mutex_init(&st->task.lock, NULL);
    pb_buf_add(&st->text.text, sql, len);
    if (refuse(st, sql, pb_sql_peek(sql, len, 0)) < 0 || find_inner(st) < 0)
        return -1;
    err->at = -1;
    st->reads = pb_rewrite_has_from(sql, len);
    st->conn = pb_sql_conn_acquire(s, &st->task, &err->err);
    if (!st->conn)
        return -1;
    if (!st->reads) {
        pthread_rwlock_rdlock(&s->catalog_lock);
        st->locked = true;
        return 0;
    }
    if (pb_sql_conn_scope(s, st->conn, &err->err) < 0)
        return -1;
    snapshot_stores(st, &files, &nfiles);
    if (lock_catalog(st, files, nfiles) < 0 || describe(st, files, nfiles) < 0)
        return -1;
    pb_rewrite_qualify(&st->text, &s->catalog);
    pb_rewrite_windows(&st->text);
    return 0;
}

static int fail(struct pb_statement *st, const char *text)
{
    uint64_t now = pb_clock_ns();

    pb_sql_database_check(st->sql, st->conn, text);
    if (st->task.cancelled && atomic_load(st->task.cancelled))
        return pb_err_set(&st->err->err, PB_TIMEOUT, "cancelled");
    if (now >= st->task.deadline_ns) {
        pb_sql_late(&st->task, false, &st->err->err);
        return -1;
    }
    if (strstr(text, "Out of Memory"))
        return pb_err_set(&st->err->err, PB_FAIL,
                          "out of memory: the query needs more than the setting query.memory_mb");
    if (!st->locked)
        pthread_rwlock_rdlock(&st->sql->catalog_lock);
    pb_sql_explain(st->sql, text, &st->text, st->base, st->err);
    if (!st->locked)
        pthread_rwlock_unlock(&st->sql->catalog_lock);
    return -1;
}

static void drop_prepared(struct pb_statement *st)
{
    const struct pb_duck *d = st->sql->duck;

    if (st->prepared)
        d->destroy_prepare(&st->prepared);
    if (st->extracted)
        d->destroy_extracted(&st->extracted);
    st->prepared = NULL;
    st->extracted = NULL;
}

/* 0, or -1 with what the engine said in the arena. */
static int bind(struct pb_statement *st, const char *sql, const char **ret_said)
{
    const struct pb_duck *d = st->sql->duck;
    uint64_t n;

    drop_prepared(st);
    n = d->extract_statements(st->conn->duck, sql, &st->extracted);
    if (n == 1 &&
        d->prepare_extracted_statement(st->conn->duck, st->extracted, 0, &st->prepared) == 0)
        return 0;
    *ret_said = n == 0  ? d->extract_statements_error(st->extracted)
                : n > 1 ? "a statement that the engine takes for several is refused"
                        : d->prepare_error(st->prepared);
    *ret_said = pb_arena_strdup(&st->arena, *ret_said ? *ret_said : "no statement");
    return -1;
}

/*
 * The very text that will be bound, as the engine's parser sees it. What that cannot read is left
 * to bind(), which fails for the same reason and says where.
 */
static int admit(struct pb_statement *st)
{
    struct pb_err err = {0};
    const char *sql = st->text.text.data + st->inner, *said;
    enum pb_admit admit;
    long at;

    admit = pb_admit_check(st->sql, st->conn, sql, &at, &err);
    if (admit == PB_ADMIT_YES)
        return 0;
    if (admit == PB_ADMIT_NOT_SQL) {
        if (bind(st, sql, &said) < 0)
            return fail(st, said);
        pb_err_set(&err, PB_FAIL, "this statement is refused: SQL here only reads");
    }
    if (pb_clock_ns() >= st->task.deadline_ns)
        return fail(st, "");
    if (at >= 0)
        st->err->at = (long)(st->base + pb_sql_origin(&st->text, st->inner + (size_t)at));
    st->err->err = err;
    return -1;
}

int pb_statement_prepare(struct pb_statement *st)
{
    const struct pb_duck *d = st->sql->duck;
    struct pb_buf grouped = PB_BUF_INIT;
    const char *said = "";
    long at;

    if (pb_sql_conn_read_only(st->sql, st->conn, &st->err->err) < 0 || admit(st) < 0)
        return -1;
    while (bind(st, st->text.text.data, &said) < 0) {
        at = strstr(said, "must appear in the GROUP BY clause") ? pb_sql_error_at(said) : -1;
        pb_buf_clear(&grouped);
        if (at < 0 || !pb_rewrite_group(&st->text, (size_t)at, &grouped)) {
            pb_buf_finish(&grouped);
            return fail(st, said);
        }
        if (admit(st) < 0) {
            pb_buf_finish(&grouped);
            return -1;
        }
        pb_sql_notice(&st->task, "no GROUP BY: grouped by %s", grouped.data ? grouped.data : "all");
    }
    pb_buf_finish(&grouped);
    if (d->prepared_statement_type(st->prepared) !=
        (st->inner ? DUCKDB_STATEMENT_TYPE_EXPLAIN : DUCKDB_STATEMENT_TYPE_SELECT))
        return pb_err_set(&st->err->err, PB_FAIL, "this statement is refused: SQL here only reads");
    if (d->nparams(st->prepared) > 0)
        return pb_err_set(&st->err->err, PB_FAIL, "the statement has parameters that nobody gave");
    return 0;
}

const char *pb_statement_column(struct pb_statement *st, size_t i)
{
    const char *name = st->sql->duck->prepared_statement_column_name(st->prepared, i);
    const char *copy = pb_arena_strdup(&st->arena, name ? name : "");

    st->sql->duck->free((void *)(uintptr_t)name);
    return copy;
}

int pb_statement_replace(struct pb_statement *st, const char *sql)
{
    const char *said = "";

    return bind(st, sql, &said) < 0 ? fail(st, said) : 0;
}

/*
 * A short question is answered as fast as any program runs; one that takes longer works beside a
 * training, on the thread of its request, which ends with it.
 */
static void lower_priority(const struct pb_statement *st)
{
    struct timespec used = {0};

    if (!st->sql->with.journal || clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) < 0)
        return;
    if ((used.tv_sec || used.tv_nsec > SHORT_NS) &&
        getpriority(PRIO_PROCESS, 0) < PB_SQL_LOW_PRIORITY)
        setpriority(PRIO_PROCESS, 0, PB_SQL_LOW_PRIORITY);
}

/*
 * Works along until there is a result. While other threads have all there is to do, the engine
 * itself would ask again without end, and take a core from them.
 */
static void work(struct pb_statement *st)
{
    const struct pb_duck *d = st->sql->duck;
    struct timespec nap = {0, NAP_NS};
    int state;

    while ((state = d->pending_execute_task(st->pending)) == DUCKDB_PENDING_RESULT_NOT_READY ||
           state == DUCKDB_PENDING_NO_TASKS_AVAILABLE) {
        lower_priority(st);
        if (state == DUCKDB_PENDING_RESULT_NOT_READY) {
            nap.tv_nsec = NAP_NS;
            continue;
        }
        nanosleep(&nap, NULL);
        if (nap.tv_nsec < NAP_MAX_NS)
            nap.tv_nsec *= 2;
    }
}

const char *pb_statement_said(struct pb_statement *st)
{
    const char *said = st->sql->duck->result_error(&st->result);

    return said ? said : "";
}

static void drop_result(struct pb_statement *st)
{
    if (st->has_result)
        st->sql->duck->destroy_result(&st->result);
    if (st->pending)
        st->sql->duck->destroy_pending(&st->pending);
    st->has_result = false;
    st->pending = NULL;
}

/* Runs it once more, for its error alone: in the arena, or "" when there was none this time. */
static const char *run_for_error(struct pb_statement *st)
{
    const struct pb_duck *d = st->sql->duck;
    duckdb_data_chunk chunk;
    const char *said = "";
    bool more = true;

    drop_result(st);
    if (pb_sql_conn_read_only(st->sql, st->conn, &(struct pb_err){0}) < 0 ||
        d->pending_prepared_streaming(st->prepared, &st->pending) != 0)
        return "";
    work(st);
    st->has_result = true;
    if (d->execute_pending(st->pending, &st->result) != 0)
        return pb_arena_strdup(&st->arena, pb_statement_said(st));
    while (more && pb_clock_ns() < st->task.deadline_ns && (chunk = d->fetch_chunk(st->result))) {
        more = d->data_chunk_get_size(chunk) > 0;
        d->destroy_data_chunk(&chunk);
    }
    said = pb_statement_said(st);
    return pb_arena_strdup(&st->arena, said);
}

static bool is_interrupt(const char *said)
{
    return strstr(said, "INTERRUPT") || strncmp(said, "Interrupted", 11) == 0;
}

/*
 * When one of the engine's threads fails, it interrupts the others, and sometimes what is kept is
 * that interruption and not the reason for it. The reason is there again when it runs again: rings
 * and files are held until the statement is closed.
 */
static const char *find_reason(struct pb_statement *st, const char *said)
{
    for (int tries = 0; tries < REASON_TRIES && is_interrupt(said) &&
                        pb_clock_ns() < st->task.deadline_ns &&
                        !(st->task.cancelled && atomic_load(st->task.cancelled));
         tries++) {
        const char *again = run_for_error(st);

        if (!*again)
            break;
        said = again;
    }
    return said;
}

int pb_statement_start(struct pb_statement *st)
{
    const struct pb_duck *d = st->sql->duck;
    int rc = d->pending_prepared_streaming(st->prepared, &st->pending);

    /* From here on nothing is bound any more: views, rings and files may change. */
    if (st->locked)
        pthread_rwlock_unlock(&st->sql->catalog_lock);
    st->locked = false;
    if (st->begun)
        pb_archive_bound(st->sql->archive);
    st->bound = st->begun;
    if (rc != 0)
        return fail(st, d->pending_error(st->pending));
    work(st);
    rc = d->execute_pending(st->pending, &st->result);
    st->has_result = true;
    if (rc == 0)
        return 0;
    return fail(st, find_reason(st, pb_arena_strdup(&st->arena, pb_statement_said(st))));
}

duckdb_data_chunk pb_statement_fetch(struct pb_statement *st, bool *ret_failed)
{
    duckdb_data_chunk chunk;
    const char *said;

    lower_priority(st);
    chunk = st->sql->duck->fetch_chunk(st->result);
    said = chunk ? "" : pb_statement_said(st);
    *ret_failed = *said != '\0';
    if (*ret_failed)
        fail(st, find_reason(st, pb_arena_strdup(&st->arena, said)));
    return chunk;
}

void pb_statement_end_reading(struct pb_statement *st)
{
    drop_result(st);
    drop_prepared(st);
    pb_sql_conn_end_reading(st->sql, st->conn);
}

void pb_statement_close(struct pb_statement *st)
{
    struct pb_sql *s = st->sql;

    drop_result(st);
    drop_prepared(st);
    if (st->locked)
        pthread_rwlock_unlock(&s->catalog_lock);
    pb_sql_conn_release(s, st->conn);
    if (st->begun && !st->bound)
        pb_archive_bound(s->archive);
    if (st->begun)
        pb_archive_end(s->archive);
    if (st->task.stores)
        pb_stores_unref(st->task.stores);
    pthread_mutex_destroy(&st->task.lock);
    pb_sql_edited_finish(&st->text);
    pb_arena_finish(&st->arena);
}
