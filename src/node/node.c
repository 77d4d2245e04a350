#include "node/node.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/home.h"
#include "host/alloc.h"
#include "node/aside.h"
#include "node/audit.h"
#include "node/node_settings.h"
#include "node/pythons.h"
#include "node/sampler.h"
#include "node/targets.h"

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

static void tell_keep(void *arg, int64_t *ret_hours, int64_t *ret_mb)
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
}

int64_t pb_node_setting(const struct pb_node *n, enum pb_setting_id id)
{
    return atomic_load_explicit(&n->settings[id], memory_order_relaxed);
}

static const struct pb_sql_settings settings = {pb_node_settings_read, pb_node_settings_write};

static bool is_set_aside(void *arg, const struct pb_reader *r, char *why, size_t cap)
{
    return pb_aside_has(((struct pb_node *)arg)->aside, r, why, cap);
}

static int start_parts(struct pb_node *n, struct pb_err *err)
{
    struct pb_discover_opts o = {.store_dir = n->opts.store_dir, .adopt = adopt_ring,
                                 .set_aside = is_set_aside, .keep = tell_keep, .arg = n};

    if (n->opts.data_dir)
        n->aside = pb_aside_open(n->opts.data_dir, n->opts.background);
    o.map = pb_aside_watches(n->aside);
    if (!n->opts.store_dir)
        o.data_dir = n->opts.data_dir;
    if (pb_discover_create(&n->discover, &o, err) < 0 || pb_sql_create(&n->sql, n, err) < 0)
        return -1;
    pb_sql_set_settings(n->sql, &settings);
    n->pythons = pb_pythons_create();
    n->targets = pb_targets_create();
    if (n->opts.data_dir &&
        pb_archive_open(&n->archive, n, n->opts.data_dir, n->opts.background, err) < 0)
        return -1;
    if (!n->opts.background)
        return 0;
    if (pb_samplers_start(&n->samplers, n, err) < 0)
        return -1;
    n->audit = pb_node_audit_create(pb_samplers_folder(n->samplers));
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
static bool is_remains(const struct pb_node *n, const struct pb_store *s, bool own)
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
static void remove_remains(struct pb_node *n, bool own)
{
    struct pb_stores *stores = pb_discover_take(n->discover, 0);

    for (size_t i = 0; i < stores->nstores; i++)
        if (is_remains(n, stores->stores[i], own) && all_sealed(stores->stores[i]))
            pb_home_erase(stores->stores[i]->path);
    pb_stores_drop(stores);
}

void pb_node_tidy(struct pb_node *n)
{
    pb_discover_collect(n->discover);
    if (n->archive && n->opts.background)
        remove_remains(n, false);
}

/* Each part after those that use it: the archive seals through the engine. */
void pb_node_destroy(struct pb_node *n)
{
    bool archived;

    if (!n)
        return;
    pb_node_audit_destroy(n->audit);
    pb_samplers_stop(n->samplers);
    archived = n->samplers && n->archive;
    pb_archive_close(n->archive);
    n->archive = NULL;
    if (archived)
        remove_remains(n, true);
    pb_sql_destroy(n->sql);
    pb_targets_destroy(n->targets);
    pb_pythons_destroy(n->pythons);
    pb_discover_destroy(n->discover);
    pb_aside_close(n->aside);
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

/* Without links as far as it exists, so that every way to write it names the same node. */
static int resolve(char *buf, size_t cap, struct pb_err *err)
{
    char *end = buf + strlen(buf), *real = NULL, *here, whole[PATH_MAX];
    int len = -1;

    if (*buf != '/' && (here = getcwd(NULL, 0))) {
        len = snprintf(whole, sizeof whole, "%s/%s", here, buf);
        free(here);
        if (len < (int)sizeof whole && len < (int)cap)
            memcpy(buf, whole, (size_t)len + 1);
        end = buf + strlen(buf);
    }
    while (end > buf && end[-1] == '/')
        *--end = '\0';
    while (end > buf && !real) {
        char cut = *end;

        *end = '\0';
        real = realpath(buf, NULL);
        *end = cut;
        if (!real)
            while (end > buf && *--end != '/')
                ;
    }
    len = snprintf(whole, sizeof whole, "%s%s", real ? real : "", end);
    free(real);
    if (len < 0 || (size_t)len >= cap || (size_t)len >= sizeof whole)
        return pb_err_set(err, PB_FAIL, "the path of the data folder is too long");
    memcpy(buf, whole, (size_t)len + 1);
    return 0;
}

int pb_node_data_dir(char *buf, size_t cap, struct pb_err *err)
{
    const char *own = getenv("PROBING_HOME"), *xdg = getenv("XDG_DATA_HOME");
    const char *home = getenv("HOME");
    int len;

    if (own && *own)
        len = snprintf(buf, cap, "%s", own);
    else if (xdg && *xdg == '/')
        len = snprintf(buf, cap, "%s/probing", xdg);
    else if (home && *home == '/')
        len = snprintf(buf, cap, "%s/.local/share/probing", home);
    else
        return pb_err_set(err, PB_FAIL, "where to keep history? set HOME or PROBING_HOME");
    if (len < 0 || (size_t)len >= cap)
        return pb_err_set(err, PB_FAIL, "the path of the data folder is too long");
    return resolve(buf, cap, err);
}

static uint32_t hash_text(uint32_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash;
}

int pb_node_socket_path(char *buf, size_t cap, const char *data_dir, struct pb_err *err)
{
    uint32_t name = hash_text(hash_text(2166136261u, data_dir), PB_VERSION);
    char user[PB_HOME_MAX];
    struct stat st;
    int fd;

    for (size_t i = 0; pb_home_roots[i]; i++) {
        if (access(pb_home_roots[i], W_OK | X_OK) < 0)
            continue;
        pb_home_user_path(user, pb_home_roots[i], geteuid());
        /* Taken by somebody else: then the folder that all agree on must be there first. */
        if (lstat(user, &st) == 0 && (st.st_uid != geteuid() || !S_ISDIR(st.st_mode) ||
                                      (st.st_mode & 077))) {
            fd = pb_home_user_create(user, pb_home_roots[i], geteuid());
            if (fd < 0)
                continue;
            close(fd);
        }
        if (snprintf(buf, cap, "%s/" PB_HOME_NODE "%08x", user, (unsigned)name) < (int)cap)
            return 0;
    }
    return pb_err_set(err, PB_FAIL, "no place for the node's socket: neither /dev/shm nor /tmp "
                                    "can be written to");
}
