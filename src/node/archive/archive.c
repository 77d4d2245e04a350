#include "node/archive/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/text/alloc.h"
#include "host/os/cond.h"
#include "node/archive/footer.h"
#include "node/archive/internal.h"

enum { LOCK_MS = 5000 }; /* a node that was killed may take a moment to be gone */

struct timespec pb_archive_in(int ms)
{
    uint64_t at = pb_clock_ns() + (uint64_t)ms * 1000000;

    return pb_clock_timespec(at);
}

bool pb_archive_stopping(struct pb_archive *a)
{
    bool stopping;

    pthread_mutex_lock(&a->wake);
    stopping = a->stopping;
    pthread_mutex_unlock(&a->wake);
    return stopping;
}

/* Sleeps; false when it is time to end. */
static bool sleep_unless_stopping(struct pb_archive *a, int ms)
{
    struct timespec until = pb_archive_in(ms);
    bool on;

    pthread_mutex_lock(&a->wake);
    while (!a->stopping &&
           pthread_cond_timedwait(&a->woken, &a->wake, &until) != ETIMEDOUT)
        ;
    on = !a->stopping;
    pthread_mutex_unlock(&a->wake);
    return on;
}

void pb_archive_reason(struct pb_archive *a, const struct pb_err *err)
{
    pthread_mutex_lock(&a->index);
    if (err)
        snprintf(a->status.reason, sizeof a->status.reason, "%.*s",
                 (int)sizeof a->status.reason - 1, err->msg);
    else
        a->status.reason[0] = '\0';
    pthread_mutex_unlock(&a->index);
}

void pb_archive_lake_reason(struct pb_archive *a, const struct pb_err *err)
{
    pthread_mutex_lock(&a->index);
    snprintf(a->status.lake_reason, sizeof a->status.lake_reason, "%.*s",
             (int)sizeof a->status.lake_reason - 1, err ? err->msg : "");
    pthread_mutex_unlock(&a->index);
}

int pb_archive_temp(const struct pb_archive *a, const struct pb_series_id *s,
                    const struct pb_part *p, char *buf)
{
    size_t n;

    if (pb_part_folder(&a->lake, s, p->day, buf) < 0)
        return -1;
    n = strlen(buf);
    memcpy(buf + n, "/.", 2);
    pb_part_name(buf + n + 2, s, p);
    n = strlen(buf);
    snprintf(buf + n, PB_LAKE_PATH_MAX - n, "%s", a->tag);
    return 0;
}

int pb_archive_finish_file(const char *path, struct pb_part *p, bool sync, struct pb_err *err)
{
    struct timespec last = pb_clock_timespec((uint64_t)p->last_ns);
    struct timespec times[2] = {last, last};
    struct pb_footer footer;
    struct stat st;
    int fd, rc;

    if (pb_footer_read(&footer, path, err) < 0)
        return -1;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    rc = fd < 0 || fstat(fd, &st) < 0 || futimens(fd, times) < 0 || (sync && fsync(fd) < 0);
    if (rc)
        pb_err_set(err, PB_FAIL, "%s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    if (rc)
        return -1;
    p->bytes = (uint64_t)st.st_size;
    p->rows = footer.rows;
    p->columns = footer.columns;
    return 0;
}

void pb_archive_sync_folder(const char *path)
{
    char folder[PB_LAKE_PATH_MAX];
    char *slash;
    int fd;

    snprintf(folder, sizeof folder, "%s", path);
    slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    fsync(fd);
    close(fd);
}

int pb_archive_rescan(struct pb_archive *a, struct pb_err *err)
{
    struct pb_finds finds, stale = {0};

    if (pb_lake_scan(a->lake.root, a->scanned_ns ? NULL : a->background ? a->tag : NULL, &finds,
                     err) < 0)
        return -1;
    a->scanned_ns = pb_clock_ns();
    pthread_mutex_lock(&a->index);
    pb_lake_replace(&a->lake, &finds, &stale);
    for (size_t i = 0; i < a->lake.nseries; i++)
        if (strcmp(a->lake.series[i]->id.host, a->host) == 0)
            a->lake.series[i]->ours = true;
    pthread_mutex_unlock(&a->index);
    /* Left by a merge that was cut short. Nobody reads them: the list does not have them, and
     * queries that came before the walk found the merged file absent. */
    if (a->background && stale.n && pb_gate_quiet(&a->gate, 1000)) {
        for (size_t i = 0; i < stale.n; i++)
            pb_lake_remove(&a->lake, &stale.found[i].key, &stale.found[i].part);
        pb_gate_close(&a->gate);
    }
    pb_finds_finish(&stale);
    pb_finds_finish(&finds);
    return 0;
}

void pb_archive_adopt(struct pb_archive *a, struct pb_store_ring *ring)
{
    const struct pb_store *store = ring->store;
    const struct pb_series *s;
    struct pb_series_id id;
    uint64_t sealed = 0;

    pb_series_name(&id, ring->reader.name, store->host, store->process.id,
                   ring->reader.created_ns);
    pthread_mutex_lock(&a->index);
    s = pb_lake_find(&a->lake, &id);
    if (s)
        sealed = pb_series_sealed(s);
    pthread_mutex_unlock(&a->index);
    atomic_store(&ring->sealed, sealed);
}

static void *seal_thread(void *arg)
{
    struct pb_archive *a = arg;
    uint64_t wait;

    do {
        struct pb_stores *stores = pb_discover_snapshot(a->discover, 250);

        wait = pb_archive_look(a, stores, false);
        pb_stores_unref(stores);
    } while (sleep_unless_stopping(a, (int)(wait / 1000000)));
    return NULL;
}

static void *tidy_thread(void *arg)
{
    struct pb_archive *a = arg;
    bool more;

    /* Of this thread alone, on Linux: sealing comes first. */
    setpriority(PRIO_PROCESS, (id_t)gettid(), 10);
    do
        more = pb_archive_tidy(a);
    while (sleep_unless_stopping(a, more ? 20 : 1000));
    return NULL;
}

static void *publish_thread(void *arg)
{
    struct pb_archive *a = arg;

    setpriority(PRIO_PROCESS, (id_t)gettid(), 10);
    while (sleep_unless_stopping(a, (int)(atomic_load(&a->lake_delay_ns) / 1000000)))
        pb_archive_publish_round(a);
    return NULL;
}

static int take_lock(struct pb_archive *a, struct pb_err *err)
{
    char path[PB_LAKE_PATH_MAX + PB_LAKE_HOST_MAX + 16];

    if (pb_lake_make(a->lake.root, 0700, err) < 0)
        return -1;
    snprintf(path, sizeof path, "%s/.lock-%s", a->lake.root, a->host);
    a->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (a->lock_fd < 0)
        return pb_err_set(err, errno == EACCES ? PB_DENIED : PB_FAIL, "%s: %s", path,
                          strerror(errno));
    for (int waited = 0; flock(a->lock_fd, LOCK_EX | LOCK_NB) < 0; waited += 20) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return 0; /* a file system without locks: the node's socket tells nodes apart */
        if (waited >= LOCK_MS)
            return pb_err_set(err, PB_FAIL, "%s: another node has it", a->lake.root);
        usleep(20000);
    }
    return 0;
}

void pb_archive_configure(struct pb_archive *a, const struct pb_settings *s)
{
    atomic_store(&a->delay_ns, s->v[PB_SET_HISTORY_DELAY] * 1000000);
    atomic_store(&a->lake_delay_ns, s->v[PB_SET_LAKE_DELAY] * 1000000);
    atomic_store(&a->lake_merge_ns, s->v[PB_SET_LAKE_MERGE] * 1000000);
    atomic_store(&a->keep_days, s->v[PB_SET_RETENTION_DAYS]);
    atomic_store(&a->keep_bytes, s->v[PB_SET_RETENTION] << 20);
}

static struct pb_archive *make_archive(const char *host, const char *data_dir)
{
    struct pb_archive *a = pb_alloc_resize(NULL, sizeof *a);
    struct pb_settings settings;
    char note[8];

    memset(a, 0, sizeof *a);
    a->lock_fd = -1;
    pb_lake_host(a->host, host);
    snprintf(a->tag, sizeof a->tag, ".%s", a->host);
    snprintf(a->lake.root, sizeof a->lake.root, "%s/lake", data_dir);
    pthread_mutex_init(&a->index, NULL);
    pthread_mutex_init(&a->wake, NULL);
    pthread_mutex_init(&a->gate.lock, NULL);
    pb_cond_init(&a->woken);
    pb_cond_init(&a->gate.moved);
    pb_settings_init(&settings);
    pb_settings_read_env(&settings, note, sizeof note);
    pb_archive_configure(a, &settings);
    return a;
}

/* A lake that is only read. */
static int open_lake(struct pb_archive **ret, const struct pb_archive_opts *o, struct pb_err *err)
{
    struct pb_archive *a = make_archive(o->host, "");

    *ret = NULL;
    if (pb_fleet_scan(o->lake, o->hours, &a->shared, &a->tables, &a->ntables, err) < 0) {
        pb_archive_close(a);
        return pb_err_prefix(err, "lake");
    }
    *ret = a;
    return 0;
}

static bool start_threads(struct pb_archive *a)
{
    a->sealing = pthread_create(&a->sealer, NULL, seal_thread, a) == 0;
    a->tidying = pthread_create(&a->tidier, NULL, tidy_thread, a) == 0;
    if (a->fleet.root[0])
        a->publishing = pthread_create(&a->publisher, NULL, publish_thread, a) == 0;
    return a->sealing && a->tidying && a->publishing == (a->fleet.root[0] != 0);
}

int pb_archive_open(struct pb_archive **ret, const struct pb_archive_opts *o, struct pb_err *err)
{
    struct pb_archive *a;

    if (o->lake && !o->background)
        return open_lake(ret, o, err);
    if (strlen(o->data_dir) > PB_LAKE_PATH_MAX / 2)
        return pb_err_set(err, PB_USAGE, "%.64s…: the path is too long",
                          o->data_dir);
    a = make_archive(o->host, o->data_dir);
    a->writer = o->writer;
    a->discover = o->discover;
    a->background = o->background;
    if (o->lake && strlen(o->lake) < sizeof a->fleet.root) {
        pb_fleet_init(&a->fleet, o->lake, o->host, o->data_dir);
        snprintf(a->status.lake, sizeof a->status.lake, "%.*s", (int)sizeof a->status.lake - 1,
                 o->lake);
    }
    if ((o->background && take_lock(a, err) < 0) || pb_archive_rescan(a, err) < 0)
        goto fail;
    if (!o->background)
        while (pb_archive_tidy(a))
            ;
    *ret = a; /* before the threads: what they find asks for it */
    if (o->background && o->discover) {
        if (!start_threads(a)) {
            pb_err_set(err, PB_FAIL, "no thread to be had");
            goto fail;
        }
    }
    return 0;
fail:
    *ret = NULL;
    pb_archive_close(a);
    return pb_err_prefix(err, "history");
}

void pb_archive_close(struct pb_archive *a)
{
    struct pb_err ignored = {0};

    if (!a)
        return;
    pthread_mutex_lock(&a->wake);
    a->stopping = true;
    pthread_cond_broadcast(&a->woken);
    pthread_mutex_unlock(&a->wake);
    if (a->tidying)
        pthread_join(a->tidier, NULL);
    if (a->publishing)
        pthread_join(a->publisher, NULL);
    if (a->sealing) {
        struct pb_stores *stores;

        pthread_join(a->sealer, NULL);
        stores = pb_discover_snapshot(a->discover, 0);
        pb_archive_look(a, stores, true);
        pb_stores_unref(stores);
        if (a->publishing)
            pb_archive_publish(a, &ignored);
    }
    pb_arena_finish(&a->shared);
    if (a->lock_fd >= 0)
        close(a->lock_fd);
    pb_lake_finish(&a->lake);
    pthread_cond_destroy(&a->gate.moved);
    pthread_cond_destroy(&a->woken);
    pthread_mutex_destroy(&a->gate.lock);
    pthread_mutex_destroy(&a->wake);
    pthread_mutex_destroy(&a->index);
    free(a);
}
