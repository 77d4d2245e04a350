/* Connections, each lent to one statement at a time, and the one who looks at the clock. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/text/alloc.h"
#include "host/os/cond.h"
#include "node/sql/internal.h"
#include "node/sql/text/text.h"
#include "node/watchdog/journal.h"

enum { IDLE_MAX = 8, LOOK_EVERY_MS = 5 };

#define LATE_NS 1000000000u
#define STUCK_NS 10000000000u

static struct pb_sql_conn *open_conn(struct pb_sql *s, struct pb_err *err)
{
    struct pb_sql_conn *c = pb_alloc_resize(NULL, sizeof *c);
    duckdb_client_context context = NULL;

    *c = (struct pb_sql_conn){.generation = s->generation};
    if (s->duck->connect(s->db, &c->duck) != 0) {
        free(c);
        pb_err_set(err, PB_FAIL, "SQL engine: no connection");
        return NULL;
    }
    s->duck->connection_get_client_context(c->duck, &context);
    c->id = s->duck->client_context_get_connection_id(context);
    s->duck->destroy_client_context(&context);
    return c;
}

static void close_conn(struct pb_sql *s, struct pb_sql_conn *c)
{
    duckdb_prepared_statement *const kept[] = {&c->parser, &c->begin, &c->rollback};

    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (*kept[i])
            s->duck->destroy_prepare(kept[i]);
    s->duck->disconnect(&c->duck);
    free(c);
}

void pb_sql_conns_close(struct pb_sql *s)
{
    struct pb_sql_conn *next;

    for (struct pb_sql_conn *c = s->conns; c; c = next) {
        next = c->next;
        close_conn(s, c);
    }
    s->conns = NULL;
}

void pb_sql_conns_close_idle(struct pb_sql *s)
{
    struct pb_sql_conn **link = &s->conns, *c;

    while ((c = *link)) {
        if (c->busy) {
            link = &c->next;
            continue;
        }
        *link = c->next;
        s->nidle--;
        close_conn(s, c);
    }
}

int pb_sql_conn_prepare(struct pb_sql *s, struct pb_sql_conn *c, duckdb_prepared_statement *kept,
                        const char *sql)
{
    if (*kept)
        return 0;
    if (s->duck->prepare(c->duck, sql, kept) == 0)
        return 0;
    pb_sql_database_check(s, c, s->duck->prepare_error(*kept));
    s->duck->destroy_prepare(kept);
    *kept = NULL;
    return -1;
}

static int run_kept(struct pb_sql *s, struct pb_sql_conn *c, duckdb_prepared_statement *kept,
                    const char *sql)
{
    duckdb_result r;
    int rc;

    if (pb_sql_conn_prepare(s, c, kept, sql) < 0)
        return -1;
    rc = s->duck->execute_prepared(*kept, &r) == 0 ? 0 : -1;
    if (rc < 0)
        pb_sql_database_check(s, c, s->duck->result_error(&r));
    s->duck->destroy_result(&r);
    return rc;
}

/* A connection that cannot leave its transaction is of no more use. */
static bool end_reading(struct pb_sql *s, struct pb_sql_conn *c)
{
    bool was = c->reading;

    c->reading = false;
    return !was || run_kept(s, c, &c->rollback, "ROLLBACK") == 0;
}

void pb_sql_conn_end_reading(struct pb_sql *s, struct pb_sql_conn *c)
{
    end_reading(s, c);
}

int pb_sql_conn_read_only(struct pb_sql *s, struct pb_sql_conn *c, struct pb_err *err)
{
    if (!end_reading(s, c) || run_kept(s, c, &c->begin, "BEGIN TRANSACTION READ ONLY") < 0)
        return pb_err_set(err, PB_FAIL, "SQL engine: no transaction");
    c->reading = true;
    return 0;
}

struct pb_sql_conn *pb_sql_conn_acquire(struct pb_sql *s, struct pb_sql_task *task,
                                        struct pb_err *err)
{
    struct pb_sql_conn *c;

    pthread_mutex_lock(&s->lock);
    for (c = s->conns; c && c->busy; c = c->next)
        ;
    if (c) {
        s->nidle--;
    } else {
        c = open_conn(s, err);
        if (c) {
            c->next = s->conns;
            s->conns = c;
        }
    }
    if (c) {
        c->busy = true;
        c->task = task;
        if (s->nbusy++ == 0)
            pthread_cond_signal(&s->wake);
    }
    pthread_mutex_unlock(&s->lock);
    return c;
}

void pb_sql_conn_release(struct pb_sql *s, struct pb_sql_conn *c)
{
    struct pb_sql_conn **link;
    bool usable;

    if (!c)
        return;
    usable = end_reading(s, c);
    pthread_mutex_lock(&s->lock);
    c->busy = false;
    c->task = NULL;
    s->nbusy--;
    if (usable && s->nidle < IDLE_MAX && c->generation == s->generation) {
        s->nidle++;
        c = NULL;
    } else {
        for (link = &s->conns; *link != c; link = &(*link)->next)
            ;
        *link = c->next;
    }
    pthread_mutex_unlock(&s->lock);
    if (c)
        close_conn(s, c);
}

/* Whose binds these are: connections of two databases may have the same number. */
struct owner {
    struct pb_sql *sql;
    unsigned generation;
};

void pb_sql_conn_introduce(struct pb_sql *s, duckdb_table_function f)
{
    struct owner *o = pb_alloc_resize(NULL, sizeof *o);

    *o = (struct owner){s, s->generation};
    s->duck->table_function_set_extra_info(f, o, free);
}

struct pb_sql_task *pb_sql_conn_task(duckdb_bind_info info, struct pb_sql **ret_sql)
{
    const struct owner *o = pb_duck()->bind_get_extra_info(info);
    struct pb_sql *s = o->sql;
    struct pb_sql_task *task = NULL;
    duckdb_client_context context = NULL;
    uint64_t id;

    *ret_sql = s;
    s->duck->table_function_get_client_context(info, &context);
    id = s->duck->client_context_get_connection_id(context);
    s->duck->destroy_client_context(&context);
    pthread_mutex_lock(&s->lock);
    for (struct pb_sql_conn *c = s->conns; c; c = c->next)
        if (c->busy && c->id == id && c->generation == o->generation)
            task = c->task;
    pthread_mutex_unlock(&s->lock);
    return task;
}

/* "2026-01-02 03:04:05+00" of a moment, or the ends of time. */
static void put_time(struct pb_buf *b, int64_t ns, int64_t slack_s)
{
    time_t t = (time_t)(ns / 1000000000);
    struct tm tm;
    char text[40];

    if (ns == INT64_MAX || ns <= 0) {
        pb_buf_printf(b, "'%sinfinity'::TIMESTAMPTZ", ns == INT64_MAX ? "" : "-");
        return;
    }
    t += slack_s;
    gmtime_r(&t, &tm);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S+00", &tm);
    pb_buf_printf(b, "'%s'::TIMESTAMPTZ", text);
}

int pb_sql_conn_scope(struct pb_sql *s, struct pb_sql_conn *c, struct pb_err *err)
{
    const struct pb_scope *scope = c->task->scope;
    struct pb_buf b = PB_BUF_INIT;
    int64_t since = INT64_MAX, until = 0;
    int rc = 0;

    if (scope->all) {
        if (c->scoped)
            rc = pb_sql_exec(s, c, "RESET VARIABLE scope", err);
        c->scoped = c->scoped && rc < 0;
        return rc;
    }
    pb_buf_puts(&b, "SET VARIABLE scope = [''");
    for (size_t i = 0; i < scope->nprocesses; i++) {
        pb_buf_puts(&b, ", ");
        pb_sql_literal(&b, scope->processes[i].id);
    }
    pb_buf_puts(&b, "]; SET VARIABLE pids = [-1::BIGINT");
    for (size_t i = 0; i < scope->nprocesses; i++) {
        const struct pb_scope_process *p = &scope->processes[i];

        pb_buf_printf(&b, ", %d", (int)p->pid);
        since = p->since_ns < since ? p->since_ns : since;
        until = p->until_ns > until ? p->until_ns : until;
    }
    pb_buf_puts(&b, "]; SET VARIABLE since = ");
    put_time(&b, since, -1);
    pb_buf_puts(&b, "; SET VARIABLE until = ");
    put_time(&b, until, 2);
    c->scoped = true;
    rc = pb_sql_exec(s, c, b.data, err);
    pb_buf_finish(&b);
    return rc;
}

static bool is_over(const struct pb_sql_task *t)
{
    return (t->cancelled && atomic_load_explicit(t->cancelled, memory_order_relaxed)) ||
           pb_clock_ns() >= t->deadline_ns;
}

void pb_sql_late(const struct pb_sql_task *t, bool stuck, struct pb_err *err)
{
    *err = (struct pb_err){0};
    pb_err_set(err, PB_TIMEOUT, "timed out after %.3g s; %s", (double)t->timeout_ms / 1000,
               stuck ? "the engine is inside one function and stops behind it"
                     : "--timeout gives it more");
}

/*
 * A function that does not come back holds a core and its memory, and whoever asked has gone. Where
 * somebody starts this process again, that is the way to stop it.
 */
static void end_stuck(struct pb_sql *s, const struct pb_sql_task *t)
{
    struct pb_journal *j = s->with.journal;

    if (!j || !t->query || pb_clock_ns() < t->deadline_ns + STUCK_NS)
        return;
    pb_journal_blame_entry(j, t->entry);
    _exit(PB_JOURNAL_EXIT_STUCK);
}

/* Answers that the time is up. Called with the engine's lock held, so that the task stays. */
static void interrupt_task(struct pb_sql_task *t)
{
    struct pb_err err;

    if (t->told || !t->query || !t->query->late || pb_clock_ns() < t->deadline_ns + LATE_NS)
        return;
    pb_sql_late(t, true, &err);
    t->told = t->query->late(&err, t->query->arg);
}

/*
 * Interrupts statements whose time is up, again and again until they end: an interrupt that falls
 * between two steps of the engine is forgotten by it.
 */
static void *watch(void *arg)
{
    struct pb_sql *s = arg;

    pthread_mutex_lock(&s->lock);
    while (!s->ending) {
        if (s->nbusy == 0) {
            pthread_cond_wait(&s->wake, &s->lock);
            continue;
        }
        pb_cond_wait_until(&s->wake, &s->lock, pb_clock_ns() + LOOK_EVERY_MS * PB_MS_NS);
        for (struct pb_sql_conn *c = s->conns; c; c = c->next)
            if (c->busy && c->task && is_over(c->task)) {
                s->duck->interrupt(c->duck);
                interrupt_task(c->task);
                end_stuck(s, c->task);
            }
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

int pb_sql_watch_start(struct pb_sql *s, struct pb_err *err)
{
    pb_cond_init(&s->wake);
    s->ending = false;
    if (pthread_create(&s->watcher, NULL, watch, s) != 0)
        return pb_err_set(err, PB_FAIL, "SQL engine: no thread");
    s->watching = true;
    return 0;
}

void pb_sql_watch_stop(struct pb_sql *s)
{
    if (!s->watching)
        return;
    pthread_mutex_lock(&s->lock);
    s->ending = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->watcher, NULL);
    pthread_cond_destroy(&s->wake);
    s->watching = false;
}
