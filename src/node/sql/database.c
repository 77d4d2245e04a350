/*
 * The engine's database: opened with what users may reach closed, and opened again when the engine
 * has broken it. A fault inside the engine (an assertion, say) makes every later statement of that
 * database fail; nothing is kept in it but views, so another one takes its place.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "node/sql/error.h"
#include "node/sql/internal.h"
#include "node/sql/text/text.h"
#include "node/watchdog/cores.h"

enum { THREADS_MAX = 8 };

/* A folder for answers in Parquet, which the engine can only write to files. */
static int make_tmp(struct pb_sql *s, struct pb_err *err)
{
    const char *base = getenv("TMPDIR");

    if (s->with.data_dir) {
        snprintf(s->tmp, sizeof s->tmp, "%s/tmp", s->with.data_dir);
        if (mkdir(s->tmp, 0700) == 0 || errno == EEXIST)
            return 0;
    }
    snprintf(s->tmp, sizeof s->tmp, "%s/probing-sql-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(s->tmp))
        return pb_err_set(err, PB_FAIL, "SQL engine: %s: %s", s->tmp, strerror(errno));
    s->own_tmp = true;
    return 0;
}

/*
 * What users may reach is closed here, in an order that matters: the folder for temporary files
 * cannot be changed once it was used, and nothing can be after the lock. All for every connection:
 * some would otherwise hold for this one only. What was read from files is not kept in memory: the
 * system does that better, and the archive reads each file once.
 */
static int lock_down(struct pb_sql *s, duckdb_connection c, struct pb_err *err)
{
    static const char doors[] = "SET GLOBAL enable_external_access = false;"
                                "SET GLOBAL errors_as_json = true;"
                                "SET GLOBAL TimeZone = 'UTC';"
                                "SET GLOBAL preserve_insertion_order = true;"
                                "SET GLOBAL enable_external_file_cache = false;"
                                "SET GLOBAL allocator_background_threads = true;"
                                "SET GLOBAL lock_configuration = true;";
    struct pb_buf b = PB_BUF_INIT;
    int rc;

    pb_buf_puts(&b, "SET GLOBAL temp_directory = ''; SET GLOBAL allowed_directories = [");
    pb_sql_literal(&b, s->tmp);
    if (s->with.data_dir) {
        char lake[PATH_MAX];

        snprintf(lake, sizeof lake, "%s/lake", s->with.data_dir);
        pb_buf_putc(&b, ',');
        pb_sql_literal(&b, lake);
    }
    if (s->with.lake) {
        pb_buf_putc(&b, ',');
        pb_sql_literal(&b, s->with.lake);
    }
    pb_buf_printf(&b, "]; %s", doors);
    rc = pb_sql_database_run(s, c, b.data, err);
    pb_buf_finish(&b);
    return rc;
}

static int count_threads(const struct pb_sql *s)
{
    cpu_set_t mine;

    if (s->with.threads > 0)
        return s->with.threads;
    pb_cores_find(false, &mine);
    return pb_cores_half(&mine);
}

static int open_database(struct pb_sql *s, struct pb_err *err)
{
    struct pb_settings settings;
    duckdb_config config = NULL;
    char memory[32], threads[16], *why = NULL;
    int cores = count_threads(s), rc = 0;

    pb_sql_read_settings(s, NULL, &settings);
    snprintf(memory, sizeof memory, "%lldMB", (long long)settings.v[PB_SET_QUERY_MEMORY]);
    snprintf(threads, sizeof threads, "%d", cores > THREADS_MAX ? THREADS_MAX : cores);
    const char *const options[][2] = {
        {"memory_limit", memory},
        {"threads", threads},
        {"autoinstall_known_extensions", "false"},
        {"autoload_known_extensions", "false"},
        {"allow_community_extensions", "false"},
        {"allow_persistent_secrets", "false"},
    };

    if (s->duck->create_config(&config) != 0)
        return pb_err_set(err, PB_FAIL, "SQL engine: no memory");
    for (size_t i = 0; i < sizeof options / sizeof *options && rc == 0; i++)
        if (s->duck->set_config(config, options[i][0], options[i][1]) != 0)
            rc = pb_err_set(err, PB_FAIL, "SQL engine: setting %s", options[i][0]);
    if (rc == 0 && s->duck->open_ext(NULL, &s->db, config, &why) != 0)
        rc = pb_err_set(err, PB_FAIL, "SQL engine: %s", why ? why : "cannot start");
    s->duck->free(why);
    s->duck->destroy_config(&config);
    return rc;
}

struct opening {
    struct pb_sql *sql;
    struct pb_err *err;
    int rc;
};

/* The engine's threads have the priority of the one that opens it. */
static void *open_low(void *arg)
{
    struct opening *o = arg;

    setpriority(PRIO_PROCESS, 0, PB_SQL_LOW_PRIORITY);
    o->rc = open_database(o->sql, o->err);
    return NULL;
}

static int open_with_low_priority(struct pb_sql *s, struct pb_err *err)
{
    struct opening o = {s, err, -1};
    pthread_t thread;

    if (pthread_create(&thread, NULL, open_low, &o) != 0)
        return open_database(s, err);
    pthread_join(thread, NULL);
    return o.rc;
}

/* Functions, schemas and locks; s->db is open. */
static int set_up(struct pb_sql *s, struct pb_err *err)
{
    duckdb_connection c = NULL;
    int rc;

    if (s->duck->connect(s->db, &c) != 0)
        return pb_err_set(err, PB_FAIL, "SQL engine: no connection");
    rc = pb_sql_scan_ring_register(s, c) < 0 || pb_sql_scan_live_register(s, c) < 0 ||
                 pb_sql_compat_register(s, c) < 0 || pb_sql_bounds_register(s, c) < 0
             ? pb_err_set(err, PB_FAIL, "SQL engine: it refuses our functions")
             : 0;
    if (rc == 0)
        rc = pb_sql_database_run(s, c,
                                 "CREATE SCHEMA python; CREATE SCHEMA system; CREATE SCHEMA gpu;"
                                 "CREATE SCHEMA probing;",
                                 err);
    if (rc == 0)
        rc = lock_down(s, c, err);
    s->duck->disconnect(&c);
    return rc;
}

/* A database lives as long as one of its connections: those that work with it now close it. */
static void close_database(struct pb_sql *s)
{
    pb_sql_conns_close_idle(s);
    if (s->db)
        s->duck->close(&s->db);
    s->db = NULL;
    s->generation++;
    pb_catalog_finish(&s->catalog);
}

int pb_sql_database_open(struct pb_sql *s, struct pb_err *err)
{
    int rc = 0;

    pthread_rwlock_wrlock(&s->catalog_lock);
    pthread_mutex_lock(&s->lock);
    if (s->db)
        close_database(s);
    if (!*s->tmp)
        rc = make_tmp(s, err);
    if (rc == 0 && (open_with_low_priority(s, err) < 0 || set_up(s, err) < 0)) {
        close_database(s);
        rc = -1;
    }
    pthread_mutex_unlock(&s->lock);
    pthread_rwlock_unlock(&s->catalog_lock);
    return rc;
}

/* By the engine's own types of errors, and by its words where it gives no type. */
static bool is_break(const char *said)
{
    static const char *const signs[] = {
        "\"exception_type\":\"FATAL\"", "\"exception_type\":\"INTERNAL\"",
        "database has been invalidated", "FATAL Error", "INTERNAL Error",
    };

    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (strstr(said, signs[i]))
            return true;
    return false;
}

bool pb_sql_database_check(struct pb_sql *s, struct pb_sql_conn *c, const char *said)
{
    if (!said || !is_break(said))
        return false;
    pthread_mutex_lock(&s->lock);
    if (c->task)
        c->task->broke = true;
    if (c->generation == s->generation && !atomic_load(&s->broken)) {
        s->last_break.count++;
        pb_sql_plain(said, s->last_break.why, sizeof s->last_break.why);
        snprintf(s->last_break.query, sizeof s->last_break.query, "%s",
                 c->task && c->task->query ? c->task->query->sql : "");
        atomic_store_explicit(&s->broken, true, memory_order_release);
    }
    pthread_mutex_unlock(&s->lock);
    return true;
}

void pb_sql_breaks(struct pb_sql *s, struct pb_sql_break *ret)
{
    pthread_mutex_lock(&s->lock);
    *ret = s->last_break;
    pthread_mutex_unlock(&s->lock);
}
