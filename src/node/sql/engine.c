#include "node/sql/engine.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/alloc.h"
#include "node/cores.h"
#include "node/sql/error.h"
#include "node/sql/internal.h"
#include "node/sql/text.h"

enum { THREADS_MAX = 8, LOW_PRIORITY = 10 };

int pb_sql_create(struct pb_sql **ret, struct pb_node *node, struct pb_err *err)
{
    struct pb_sql *s = pb_alloc_resize(NULL, sizeof *s);

    (void)err;
    memset(s, 0, sizeof *s);
    s->node = node;
    s->duck = pb_duck();
    pthread_mutex_init(&s->warm_lock, NULL);
    pthread_mutex_init(&s->lock, NULL);
    pthread_rwlock_init(&s->catalog_lock, NULL);
    *ret = s;
    return 0;
}

void pb_sql_set_settings(struct pb_sql *s, const struct pb_sql_settings *settings)
{
    s->settings = settings;
}

void pb_sql_destroy(struct pb_sql *s)
{
    if (!s)
        return;
    pb_sql_watch_stop(s);
    pb_sql_conns_close(s);
    if (s->db)
        s->duck->close(&s->db);
    if (s->own_tmp)
        rmdir(s->tmp);
    pb_catalog_finish(&s->catalog);
    pthread_rwlock_destroy(&s->catalog_lock);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->warm_lock);
    free(s);
}

void pb_sql_read_settings(struct pb_sql *s, const struct pb_scope *scope, struct pb_settings *ret)
{
    struct pb_err ignored = {0};

    pb_settings_init(ret);
    if (s->settings && s->settings->read(s->node, scope, ret, &ignored) < 0)
        pb_settings_init(ret);
}

/* A folder for answers in Parquet, which the engine can only write to files. */
static int make_tmp(struct pb_sql *s, struct pb_err *err)
{
    const char *base = getenv("TMPDIR");

    if (s->node->opts.data_dir) {
        snprintf(s->tmp, sizeof s->tmp, "%s/tmp", s->node->opts.data_dir);
        if (mkdir(s->tmp, 0700) == 0 || errno == EEXIST)
            return 0;
    }
    snprintf(s->tmp, sizeof s->tmp, "%s/probing-sql-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(s->tmp))
        return pb_err_set(err, PB_FAIL, "SQL engine: %s: %s", s->tmp, strerror(errno));
    s->own_tmp = true;
    return 0;
}

static int run_all(struct pb_sql *s, struct duck_connection *c, const char *sql, struct pb_err *err)
{
    struct duck_result r;
    char why[256];
    int rc = 0;

    if (s->duck->query(c, sql, &r) != 0) {
        pb_sql_plain(s->duck->result_error(&r), why, sizeof why);
        rc = pb_err_set(err, PB_FAIL, "SQL engine: %s", why);
    }
    s->duck->destroy_result(&r);
    return rc;
}

/*
 * What users may reach is closed here, in an order that matters: the folder for temporary files
 * cannot be changed once it was used, and nothing can be after the lock. All for every connection:
 * some would otherwise hold for this one only. What was read from files is not kept in memory: the
 * system does that better, and the archive reads each file once.
 */
static int close_doors(struct pb_sql *s, struct duck_connection *c, struct pb_err *err)
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
    if (s->node->opts.data_dir) {
        char lake[PATH_MAX];

        snprintf(lake, sizeof lake, "%s/lake", s->node->opts.data_dir);
        pb_buf_putc(&b, ',');
        pb_sql_literal(&b, lake);
    }
    pb_buf_printf(&b, "]; %s", doors);
    rc = run_all(s, c, b.data, err);
    pb_buf_finish(&b);
    return rc;
}

static int open_database(struct pb_sql *s, struct pb_err *err)
{
    struct pb_settings settings;
    struct duck_config *config = NULL;
    char memory[32], threads[16], *why = NULL;
    int cores = pb_cores_half(), rc = 0;

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

    setpriority(PRIO_PROCESS, 0, LOW_PRIORITY);
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

static int set_up(struct pb_sql *s, struct pb_err *err)
{
    struct duck_connection *c = NULL;
    int rc;

    if (make_tmp(s, err) < 0 || open_with_low_priority(s, err) < 0)
        return -1;
    if (s->duck->connect(s->db, &c) != 0)
        return pb_err_set(err, PB_FAIL, "SQL engine: no connection");
    rc = pb_sql_scan_ring_register(s, c) < 0 || pb_sql_scan_live_register(s, c) < 0 ||
                 pb_sql_compat_register(s, c) < 0 || pb_sql_bounds_register(s, c) < 0
             ? pb_err_set(err, PB_FAIL, "SQL engine: it refuses our functions")
             : 0;
    if (rc == 0)
        rc = run_all(s, c,
                     "CREATE SCHEMA python; CREATE SCHEMA system; CREATE SCHEMA gpu;"
                     "CREATE SCHEMA probing;",
                     err);
    if (rc == 0)
        rc = close_doors(s, c, err);
    s->duck->disconnect(&c);
    return rc;
}

int pb_sql_warm(struct pb_sql *s, struct pb_err *err)
{
    int rc = 0;

    if (atomic_load_explicit(&s->warm, memory_order_acquire))
        return 0;
    pthread_mutex_lock(&s->warm_lock);
    if (!atomic_load_explicit(&s->warm, memory_order_relaxed)) {
        rc = pb_duck_load(err) < 0 || set_up(s, err) < 0 || pb_sql_watch_start(s, err) < 0 ? -1 : 0;
        if (rc == 0)
            atomic_store_explicit(&s->warm, true, memory_order_release);
        else if (s->db)
            s->duck->close(&s->db);
    }
    pthread_mutex_unlock(&s->warm_lock);
    return rc;
}

int pb_sql_exec(struct pb_sql *s, struct pb_sql_conn *c, const char *sql, struct pb_err *err)
{
    return run_all(s, c->duck, sql, err);
}

/* Said once: a table may be bound several times for one statement. */
void pb_sql_notice(struct pb_sql_task *task, const char *fmt, ...)
{
    struct pb_buf line = PB_BUF_INIT;
    va_list ap;

    if (!task->notices)
        return;
    va_start(ap, fmt);
    pb_buf_vprintf(&line, fmt, ap);
    va_end(ap);
    pb_buf_putc(&line, '\n');
    pthread_mutex_lock(&task->lock);
    if (!task->notices->data || !strstr(task->notices->data, line.data))
        pb_buf_add(task->notices, line.data, line.len);
    pthread_mutex_unlock(&task->lock);
    pb_buf_finish(&line);
}

uint64_t pb_sql_memory(struct pb_sql *s)
{
    struct duck_result r;
    struct duck_chunk *chunk;
    struct pb_sql_conn *c;
    struct pb_err ignored = {0};
    uint64_t bytes = 0;

    if (!atomic_load_explicit(&s->warm, memory_order_acquire))
        return 0;
    c = pb_sql_conn_take(s, NULL, &ignored);
    if (!c)
        return 0;
    if (s->duck->query(c->duck, "SELECT sum(memory_usage_bytes)::BIGINT FROM duckdb_memory()",
                       &r) == 0) {
        chunk = s->duck->fetch_chunk(r);
        if (chunk && s->duck->data_chunk_get_size(chunk) == 1)
            bytes = *(uint64_t *)s->duck->vector_get_data(s->duck->data_chunk_get_vector(chunk, 0));
        if (chunk)
            s->duck->destroy_data_chunk(&chunk);
    }
    s->duck->destroy_result(&r);
    pb_sql_conn_give(s, c);
    return bytes;
}
