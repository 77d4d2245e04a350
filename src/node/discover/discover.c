#include "node/discover/discover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/home.h"
#include "host/text/alloc.h"
#include "host/text/arena.h"
#include "node/discover/directories.h"
#include "node/discover/internal.h"

#define NS_PER_MS 1000000ull

/* What the rings of one other user may take of a node, and how many times that all others may. */
static const struct pb_ring_room room_of_user = {.rings = 4096, .columns = 65536};
enum { USERS = 4 };
/* All of these rings together leave so much of the descriptors: seven of eight. */
#define DESCRIPTORS_SHARE 8

struct pb_discover {
    struct pb_discover_opts opts;
    struct pb_surroundings around;
    pthread_mutex_t lock; /* guards all below */
    struct pb_store_dirs *dirs;
    struct pb_folder **folders;
    size_t nfolders;
    struct pb_stores *current;
    uint64_t changes;
    uint64_t looked_ns; /* monotonic */
    struct pb_inner_pids inner; /* during one look */
};

int pb_discover_create(struct pb_discover **ret, const struct pb_discover_opts *o,
                       struct pb_err *err)
{
    struct pb_discover *d = pb_alloc_resize(NULL, sizeof *d);

    memset(d, 0, sizeof *d);
    d->opts = *o;
    d->around.opts = &d->opts;
    gethostname(d->around.host, sizeof d->around.host - 1);
    pb_home_boot_id(d->around.boot_id);
    if (pb_store_dirs_create(&d->dirs, o->store_dir, err) < 0) {
        free(d);
        return -1;
    }
    pthread_mutex_init(&d->lock, NULL);
    *ret = d;
    return 0;
}

static void folder_free(struct pb_folder *f)
{
    pb_store_unref(f->store);
    if (f->pidfd >= 0)
        close(f->pidfd);
    free(f);
}

void pb_discover_destroy(struct pb_discover *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->nfolders; i++)
        folder_free(d->folders[i]);
    free(d->folders);
    pb_stores_unref(d->current);
    pb_store_dirs_destroy(d->dirs);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

/* By path, or, when the way to it changed (/proc/PID/root of another process), by inode. */
static struct pb_folder *find_folder(struct pb_discover *d, const char *path)
{
    struct stat st;

    for (size_t i = 0; i < d->nfolders; i++)
        if (strcmp(d->folders[i]->path, path) == 0)
            return d->folders[i];
    if (strncmp(path, "/proc/", 6) != 0 || strlen(path) >= sizeof d->folders[0]->path ||
        stat(path, &st) < 0)
        return NULL;
    for (size_t i = 0; i < d->nfolders; i++) {
        struct pb_folder *f = d->folders[i];

        if (f->stamp.dev == st.st_dev && f->stamp.ino == st.st_ino) {
            snprintf(f->path, sizeof f->path, "%s", path);
            return f;
        }
    }
    return NULL;
}

/* A folder of a place; called for each in turn. */
static void on_folder(const char *path, uid_t owner, bool copied, void *arg)
{
    struct pb_discover *d = arg;
    struct pb_folder *f = find_folder(d, path);
    pid_t pid;
    uint64_t start;

    if (f) {
        f->seen = true;
        return;
    }
    if (strlen(path) >= sizeof f->path ||
        !(copied ? pb_folder_identify(path, &pid, &start)
                 : pb_process_id_parse(strrchr(path, '/') + 1, &pid, &start)))
        return;
    f = pb_alloc_resize(NULL, sizeof *f);
    memset(f, 0, sizeof *f);
    snprintf(f->path, sizeof f->path, "%s", path);
    pb_process_key(f->process.id, pid, start, copied ? geteuid() : owner);
    f->owner = owner;
    f->copied = copied;
    f->pidfd = -1;
    f->ns_pid = f->process.pid = pid;
    f->process.start = start;
    f->seen = true;
    d->folders = pb_alloc_resize(d->folders, (d->nfolders + 1) * sizeof(void *));
    d->folders[d->nfolders++] = f;
}

static size_t minus(size_t a, size_t b)
{
    return a > b ? a - b : 0;
}

/* How many rings all others' may be. */
static size_t count_descriptors(void)
{
    struct rlimit l;

    if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur == RLIM_INFINITY)
        return SIZE_MAX;
    return (size_t)(l.rlim_cur / DESCRIPTORS_SHARE);
}

/* What is left for the rings of a folder, when what is in other folders is taken from it. */
static void measure_room(struct pb_discover *d, const struct pb_folder *f)
{
    struct pb_ring_room *left = &d->around.room, all = room_of_user;
    size_t descriptors = count_descriptors();

    *left = room_of_user;
    left->rings = left->rings < descriptors / 2 ? left->rings : descriptors / 2;
    all.rings = all.rings * USERS < descriptors ? all.rings * USERS : descriptors;
    all.columns *= USERS;
    for (size_t i = 0; i < d->nfolders; i++) {
        const struct pb_store *s = d->folders[i] == f ? NULL : d->folders[i]->store;

        if (!s || !s->foreign)
            continue;
        for (size_t k = 0; k < s->nrings; k++)
            all.columns = minus(all.columns, s->rings[k]->reader.ncolumns);
        all.rings = minus(all.rings, s->nrings);
        if (s->uid != f->owner)
            continue;
        for (size_t k = 0; k < s->nrings; k++)
            left->columns = minus(left->columns, s->rings[k]->reader.ncolumns);
        left->rings = minus(left->rings, s->nrings);
    }
    left->rings = left->rings < all.rings ? left->rings : all.rings;
    left->columns = left->columns < all.columns ? left->columns : all.columns;
}

/* Reads a folder if it changed; whether its store is another one now. */
static bool refresh_folder(struct pb_discover *d, struct pb_folder *f)
{
    struct pb_store *before = f->store;
    struct stat st;

    if (!f->judged) {
        f->judged = true;
        if (!f->copied)
            pb_folder_judge(f, &d->inner);
    } else if (f->process.live && !pb_folder_lives(f)) {
        measure_room(d, f);
        pb_folder_mark_dead(f, &d->around);
        return f->store != before;
    }
    if (f->forged || fstatat(AT_FDCWD, f->path, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        pb_folder_stamp_same(&f->stamp, &st))
        return false;
    if (f->owner != geteuid() && !f->copied)
        measure_room(d, f);
    if (pb_folder_read(f, &d->around) < 0) {
        pb_store_unref(f->store);
        f->store = NULL;
    }
    return f->store != before;
}

/* Folders that are gone; one whose container ended under our hands stays for its rings. */
static bool drop_gone_folders(struct pb_discover *d)
{
    size_t kept = 0;
    bool changed = false;

    for (size_t i = 0; i < d->nfolders; i++) {
        struct pb_folder *f = d->folders[i];

        if (f->seen || pb_store_dirs_keeps(d->dirs, f)) {
            d->folders[kept++] = f;
            continue;
        }
        changed = changed || f->store;
        folder_free(f);
    }
    d->nfolders = kept;
    return changed;
}

/* Did what SQL sees change: tables, columns, processes? A new status alone is no such thing. */
static bool differs(const struct pb_stores *x, const struct pb_stores *y)
{
    if (!x || x->nstores != y->nstores)
        return true;
    for (size_t i = 0; i < x->nstores; i++) {
        const struct pb_store *a = x->stores[i], *b = y->stores[i];

        if (a == b)
            continue;
        if (strcmp(a->process.id, b->process.id) != 0 || a->nrings != b->nrings ||
            a->process.live != b->process.live || strcmp(a->meta, b->meta) != 0)
            return true;
        for (size_t r = 0; r < a->nrings; r++)
            if (a->rings[r] != b->rings[r])
                return true;
    }
    return false;
}

static int by_pid(const void *x, const void *y)
{
    const struct pb_store *a = *(struct pb_store *const *)x, *b = *(struct pb_store *const *)y;

    if (a->process.pid != b->process.pid)
        return a->process.pid < b->process.pid ? -1 : 1;
    if (a->process.start != b->process.start)
        return a->process.start < b->process.start ? -1 : 1;
    return strcmp(a->path, b->path);
}

static bool is_foreign_node(const struct pb_discover *d, const struct pb_store *s)
{
    struct pb_arena a = PB_ARENA_INIT;
    const char *role = d->opts.data_dir ? pb_store_value(s->meta, "role", &a) : NULL;
    const char *data = role ? pb_store_value(s->meta, "data", &a) : NULL;
    bool yes = role && strcmp(role, "node") == 0 && (!data || strcmp(data, d->opts.data_dir) != 0);

    pb_arena_finish(&a);
    return yes;
}

static void publish(struct pb_discover *d)
{
    struct pb_stores *s = pb_alloc_resize(NULL, sizeof *s), *old = d->current;

    memset(s, 0, sizeof *s);
    atomic_init(&s->refs, 1);
    s->stores = pb_alloc_resize(NULL, (d->nfolders + 1) * sizeof(void *));
    for (size_t i = 0; i < d->nfolders; i++)
        if (d->folders[i]->store && !is_foreign_node(d, d->folders[i]->store))
            s->stores[s->nstores++] = pb_store_ref(d->folders[i]->store);
    qsort(s->stores, s->nstores, sizeof(void *), by_pid);
    if (differs(old, s))
        d->changes++;
    s->changes = d->changes;
    d->current = s;
    pb_stores_unref(old);
}

static void refresh(struct pb_discover *d, bool everywhere)
{
    bool changed = !d->current;

    if (pb_store_dirs_refresh(d->dirs, everywhere)) {
        for (size_t i = 0; i < d->nfolders; i++)
            d->folders[i]->seen = false;
        pb_store_dirs_each(d->dirs, on_folder, d);
        changed = drop_gone_folders(d) || changed;
    }
    for (size_t i = 0; i < d->nfolders; i++)
        changed = refresh_folder(d, d->folders[i]) || changed;
    pb_inner_pids_forget(&d->inner);
    if (changed)
        publish(d);
    d->looked_ns = pb_clock_ns();
}

struct pb_stores *pb_discover_snapshot(struct pb_discover *d, int max_age_ms)
{
    struct pb_stores *s;

    pthread_mutex_lock(&d->lock);
    if (!d->current || max_age_ms <= 0 ||
        pb_clock_ns() - d->looked_ns > (uint64_t)max_age_ms * NS_PER_MS)
        refresh(d, max_age_ms < 0);
    s = d->current;
    atomic_fetch_add(&s->refs, 1);
    pthread_mutex_unlock(&d->lock);
    return s;
}

void pb_stores_unref(struct pb_stores *s)
{
    if (!s || atomic_fetch_sub(&s->refs, 1) > 1)
        return;
    for (size_t i = 0; i < s->nstores; i++)
        pb_store_unref(s->stores[i]);
    free(s->stores);
    free(s);
}

void pb_discover_collect(struct pb_discover *d)
{
    struct pb_home_keep keep;
    int64_t hours = 0, mb = 0;

    if (d->opts.store_dir || !d->opts.keep)
        return;
    d->opts.keep(d->opts.arg, &hours, &mb);
    keep = (struct pb_home_keep){.seconds = hours * 3600, .bytes = mb << 20};
    for (size_t i = 0; pb_home_roots[i]; i++)
        pb_home_sweep(pb_home_roots[i], geteuid(), &keep);
}
