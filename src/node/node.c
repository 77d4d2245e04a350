#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/home.h"
#include "host/text/alloc.h"
#include "node/access/audit.h"
#include "node/discover/pythons.h"
#include "node/archive/fleet.h"
#include "node/node_settings.h"
#include "node/parts.h"
#include "node/peers/peers.h"
#include "node/peers/ranks.h"
#include "node/profile/continuous.h"
#include "node/sample/sampler.h"
#include "node/rows/live.h"
#include "node/stacks/cache.h"
#include "node/waits/waits.h"
#include "node/watchdog/journal.h"
#include "node/watchdog/quarantine.h"

const char *pb_node_version(void)
{
    return PB_VERSION;
}

static void adopt_ring(void *arg, struct pb_store_ring *ring)
{
    struct pb_node *n = arg;

    if (n->archive)
        pb_archive_adopt(n->archive, ring);
}

static void read_keep_settings(void *arg, int64_t *ret_hours, int64_t *ret_mb)
{
    struct pb_node *n = arg;

    *ret_hours = pb_node_setting(n, PB_SET_STORE_KEEP_HOURS);
    *ret_mb = pb_node_setting(n, PB_SET_STORE_KEEP);
}

static void read_settings(struct pb_node *n)
{
    struct pb_settings s;
    char note[160];

    pb_settings_init(&s);
    pb_settings_read_env(&s, note, sizeof note);
    for (int i = 0; i < PB_SETTING_COUNT; i++)
        atomic_init(&n->settings[i], s.v[i]);
    if (n->opts.background)
        snprintf(n->lake, sizeof n->lake, "%s", pb_settings_text(&s, PB_SET_LAKE_PATH));
    else if (n->opts.store_dir && !n->opts.data_dir && pb_fleet_is_lake(n->opts.store_dir))
        snprintf(n->lake, sizeof n->lake, "%s", n->opts.store_dir);
}

int64_t pb_node_setting(const struct pb_node *n, enum pb_setting_id id)
{
    return atomic_load_explicit(&n->settings[id], memory_order_relaxed);
}

static const struct pb_sql_settings settings = {pb_node_settings_read, pb_node_settings_write};

static bool is_set_aside(void *arg, const struct stat *st, uint64_t created_ns, char *why,
                         size_t cap)
{
    struct pb_ring_identity ring = {st->st_dev, st->st_ino, created_ns};

    return pb_quarantine_has(((struct pb_node *)arg)->quarantine, &ring, why, cap);
}

static int begin_ring(void *arg, const struct stat *st)
{
    return pb_journal_begin_ring(((struct pb_node *)arg)->opts.journal,
                                 &(struct pb_ring_identity){st->st_dev, st->st_ino, 0});
}

static void end_ring(void *arg, int begun)
{
    pb_journal_end(((struct pb_node *)arg)->opts.journal, begun);
}

static int write_ring(void *sql, struct pb_store_ring *ring, uint64_t first, uint64_t last,
                      const char *path, uint64_t *ret_rows, struct pb_err *err)
{
    return pb_sql_write_ring(sql, ring, first, last, path, ret_rows, err);
}

static int merge_files(void *sql, const char *const *paths, size_t n, const char *path,
                       struct pb_err *err)
{
    return pb_sql_merge_files(sql, paths, n, path, err);
}

static int publish_batch(void *sql, const struct pb_batch *b, const char *folder,
                         struct pb_err *err)
{
    return pb_sql_publish(sql, b, folder, err);
}

static int has_batch(void *sql, const char *glob, const char *batch, bool *ret, struct pb_err *err)
{
    return pb_sql_has_batch(sql, glob, batch, ret, err);
}

static int start_discover(struct pb_node *n, struct pb_err *err)
{
    struct pb_discover_opts o = {.store_dir = n->opts.store_dir,
                                 .data_dir = n->opts.store_dir ? NULL : n->opts.data_dir,
                                 .adopt = adopt_ring,
                                 .set_aside = is_set_aside,
                                 .known = pb_known_ring,
                                 .begin = begin_ring,
                                 .end = end_ring,
                                 .keep = read_keep_settings,
                                 .arg = n};

    if (n->opts.data_dir)
        n->quarantine = pb_quarantine_open(n->opts.data_dir);
    o.map = n->opts.background;
    return pb_discover_create(&n->discover, &o, err);
}

/* Rows by SQL, and the files that SQL writes them to. */
static int start_sql(struct pb_node *n, struct pb_err *err)
{
    struct pb_sql_opts o = {.node = n,
                            .settings = &settings,
                            .discover = n->discover,
                            .data_dir = n->opts.data_dir,
                            .lake = n->lake[0] ? n->lake : NULL,
                            .journal = n->opts.journal,
                            .threads = n->opts.cores};
    struct pb_archive_opts files = {.writer = {.write = write_ring,
                                               .merge = merge_files,
                                               .publish = publish_batch,
                                               .has_batch = has_batch},
                                    .lake = o.lake,
                                    .hours = {n->opts.lake_hours[0], n->opts.lake_hours[1]},
                                    .discover = n->discover,
                                    .host = n->host,
                                    .data_dir = n->opts.data_dir,
                                    .background = n->opts.background};

    if (pb_sql_create(&n->sql, &o, err) < 0)
        return -1;
    files.writer.arg = n->sql;
    if ((n->opts.data_dir || (o.lake && !n->opts.background)) &&
        pb_archive_open(&n->archive, &files, err) < 0)
        return -1;
    pb_sql_set_archive(n->sql, n->archive);
    return 0;
}

static int start_parts(struct pb_node *n, struct pb_err *err)
{
    struct pb_samplers_opts o = {.host = n->host,
                                 .data_dir = n->opts.data_dir,
                                 .interval_ms = &n->settings[PB_SET_SAMPLE_INTERVAL]};

    n->pythons = pb_pythons_create();
    n->stacks = pb_stack_cache_create();
    n->looks = pb_looks_create();
    n->ranks = pb_ranks_create(n->pythons);
    if (start_discover(n, err) < 0 || start_sql(n, err) < 0)
        return -1;
    if (!n->opts.background)
        return 0;
    if (pb_samplers_start(&n->samplers, &o, err) < 0)
        return -1;
    n->continuous = pb_continuous_start(
        &(struct pb_continuous_opts){.dir = pb_samplers_folder(n->samplers),
                                     .discover = n->discover,
                                     .budget = &n->settings[PB_SET_PROFILE_BUDGET]});
    n->audit = pb_node_audit_create(pb_samplers_folder(n->samplers));
    n->peers = pb_peers_create(
        &(struct pb_peers_opts){.host = n->host,
                                .data_dir = n->opts.data_dir,
                                .version = pb_node_version(),
                                .interval_ms = &n->settings[PB_SET_CLUSTER_INTERVAL],
                                .port = &n->settings[PB_SET_CLUSTER_PORT],
                                .ranks = n->ranks});
    return 0;
}

int pb_node_create(struct pb_node **ret, const struct pb_node_opts *o, struct pb_err *err)
{
    struct pb_node *n = pb_alloc_resize(NULL, sizeof *n);

    memset(n, 0, sizeof *n);
    n->opts = *o;
    n->opts.store_dir = o->store_dir ? strdup(o->store_dir) : NULL;
    n->opts.data_dir = o->data_dir ? strdup(o->data_dir) : NULL;
    n->started_ns = pb_clock_ns();
    n->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    gethostname(n->host, sizeof n->host - 1);
    read_settings(n);
    if (start_parts(n, err) < 0) {
        pb_node_destroy(n);
        return -1;
    }
    *ret = n;
    return 0;
}

static bool all_sealed(const struct pb_store *s)
{
    for (size_t i = 0; i < s->nrings; i++) {
        uint64_t first, next;

        pb_reader_range(&s->rings[i]->reader, &first, &next);
        if (atomic_load(&s->rings[i]->sealed) < next)
            return false;
    }
    return true;
}

/* Is it the folder of a node of this history: one that is gone, or ourselves at the end? */
static bool is_leftover(const struct pb_node *n, const struct pb_store *s, bool own)
{
    struct pb_arena a = PB_ARENA_INIT;
    const char *role = pb_store_value(s->meta, "role", &a);
    const char *data = pb_store_value(s->meta, "data", &a);
    bool yes = role && strcmp(role, "node") == 0 && data &&
               strcmp(data, n->opts.data_dir) == 0 && s->uid == geteuid() &&
               (s->process.live ? own && s->process.pid == getpid() : true);

    pb_arena_finish(&a);
    return yes;
}

/* What is not history yet stays, for this node or the next one to find. */
static void remove_leftovers(struct pb_node *n, bool own)
{
    struct pb_stores *stores = pb_discover_snapshot(n->discover, 0);

    for (size_t i = 0; i < stores->nstores; i++)
        if (is_leftover(n, stores->stores[i], own) && all_sealed(stores->stores[i]))
            pb_home_erase(stores->stores[i]->path);
    pb_stores_unref(stores);
}

void pb_node_tidy(struct pb_node *n)
{
    pb_discover_collect(n->discover);
    if (n->archive && n->opts.background)
        remove_leftovers(n, false);
}

/* Each part after those that use it: the archive seals through the engine. */
void pb_node_destroy(struct pb_node *n)
{
    bool archived;

    if (!n)
        return;
    pb_peers_destroy(n->peers);
    pb_ranks_destroy(n->ranks);
    pb_node_audit_destroy(n->audit);
    pb_continuous_stop(n->continuous);
    pb_samplers_stop(n->samplers);
    archived = n->samplers && n->archive;
    pb_archive_close(n->archive);
    n->archive = NULL;
    if (archived)
        remove_leftovers(n, true);
    pb_sql_destroy(n->sql);
    pb_looks_destroy(n->looks);
    pb_stack_cache_destroy(n->stacks);
    pb_pythons_destroy(n->pythons);
    pb_discover_destroy(n->discover);
    pb_quarantine_close(n->quarantine);
    if (n->stop_fd >= 0)
        close(n->stop_fd);
    free((char *)n->opts.store_dir);
    free((char *)n->opts.data_dir);
    free(n);
}

void pb_node_stop(struct pb_node *n)
{
    uint64_t one = 1;

    if (write(n->stop_fd, &one, sizeof one) < 0)
        return; /* it is readable already */
}
