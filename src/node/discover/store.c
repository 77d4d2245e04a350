#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/home.h"
#include "host/net/agent_socket.h"
#include "host/text/alloc.h"
#include "host/text/buf.h"
#include "node/discover/internal.h"

#define RINGS_MAX 1024
/* Times of files are as coarse as a tick of the kernel; a hundredth of a second at worst. */
#define SETTLE_NS 50000000ll
/* A ring that cannot be read may be in the making; later it is just broken. */
#define PATIENCE_NS 10000000000ll
/* Rows about a process that others wrote may be younger than its own last row. */
#define SLACK_NS 2000000000ll
/* Files of a folder that are looked at, and those that are named with what is wrong with them. */
#define FILES_MAX 65536
#define TROUBLES_MAX 64

struct version {
    struct pb_store pub;
    _Atomic int refs;
};

struct ring {
    struct pb_store_ring pub;
    _Atomic int refs;
};

bool pb_folder_stamp_same(const struct pb_folder_stamp *s, const struct stat *st)
{
    return s->settled && s->dev == st->st_dev && s->ino == st->st_ino &&
           pb_clock_of_timespec(&s->mtime) == pb_clock_of_timespec(&st->st_mtim);
}

void pb_folder_stamp_set(struct pb_folder_stamp *s, const struct stat *st)
{
    int64_t age_ns = pb_clock_wall_ns() - pb_clock_of_timespec(&st->st_mtim);

    *s = (struct pb_folder_stamp){st->st_dev, st->st_ino, st->st_mtim, age_ns > SETTLE_NS};
}

struct pb_store *pb_store_ref(struct pb_store *s)
{
    atomic_fetch_add(&((struct version *)s)->refs, 1);
    return s;
}

static void ring_drop(struct ring *r)
{
    if (atomic_fetch_sub(&r->refs, 1) > 1)
        return;
    pb_reader_close(&r->pub.reader);
    pb_store_unref((struct pb_store *)r->pub.store);
    free(r);
}

void pb_store_unref(struct pb_store *s)
{
    if (!s || atomic_fetch_sub(&((struct version *)s)->refs, 1) > 1)
        return;
    for (size_t i = 0; i < s->nrings; i++)
        ring_drop((struct ring *)s->rings[i]);
    free(s->rings);
    free(s->meta);
    free(s->status);
    free(s->end);
    free(s->troubles);
    free(s);
}

static char *copy_text(const char *text, size_t len)
{
    char *copy = pb_alloc_resize(NULL, len + 1);

    memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

/* When a process that nobody saw ending was last seen. */
static int64_t last_seen_ns(const struct pb_folder *f, const struct pb_store *s)
{
    int64_t last = pb_clock_of_timespec(&f->stamp.mtime), row;

    for (size_t i = 0; i < s->nrings; i++) {
        /* Rows about others go on in the node's own rings. */
        row = pb_reader_last_ns(&s->rings[i]->reader);
        if (row > last && row < pb_clock_wall_ns() + SLACK_NS)
            last = row;
    }
    return last + SLACK_NS;
}

static void describe(struct pb_store *s, const struct pb_folder *f,
                     const struct pb_surroundings *around)
{
    struct pb_arena a = PB_ARENA_INIT;
    const char *host = pb_store_value(s->meta, "host", &a);
    bool other_boot = !pb_meta_is(s->meta, "boot_id", around->boot_id) && *s->meta;

    snprintf(s->path, sizeof s->path, "%s", f->path);
    s->process = f->process;
    s->ns_pid = f->ns_pid;
    s->uid = f->owner;
    s->foreign = !f->copied && f->owner != geteuid();
    /* Here a container's host name is not what the machine is called. */
    snprintf(s->host, sizeof s->host, "%s",
             host && *host && (other_boot || f->copied) ? host : around->host);
    s->rank = pb_meta_number(s->meta, "rank", -1);
    s->world_size = pb_meta_number(s->meta, "world_size", -1);
    s->local_rank = pb_meta_number(s->meta, "local_rank", -1);
    s->process.since_ns = other_boot || f->copied
                              ? pb_meta_number(s->meta, "started_ns", 0)
                              : pb_process_since_ns(f->process.start);
    pb_arena_finish(&a);
}

static struct pb_store *new_version(void)
{
    struct version *v = pb_alloc_resize(NULL, sizeof *v);

    memset(v, 0, sizeof *v);
    atomic_init(&v->refs, 1);
    return &v->pub;
}

/* What a ring points to: who wrote it, without a way back to rings. */
static struct pb_store *identity_of(const struct pb_store *s)
{
    struct pb_store *copy = new_version();

    *copy = *s;
    copy->rings = NULL;
    copy->nrings = 0;
    copy->meta = copy_text(s->meta, strlen(s->meta));
    copy->status = copy_text("", 0);
    copy->end = copy_text("", 0);
    copy->troubles = copy_text("", 0);
    return copy;
}

static int check_aside(const struct pb_discover_opts *o, const struct stat *st,
                       uint64_t created_ns, struct pb_err *err)
{
    char why[160];

    return o->set_aside && o->set_aside(o->arg, st, created_ns, why, sizeof why)
               ? pb_err_set(err, PB_FAIL, "%s", why)
               : 0;
}

/* Opens it unless something speaks against that. */
static int open_reader(struct pb_reader *r, int dir, const char *file, const struct pb_store *s,
                       const struct pb_discover_opts *o, const struct stat *st, struct pb_err *err)
{
    int begun, rc;

    if (check_aside(o, st, 0, err) < 0)
        return -1;
    begun = o->begin ? o->begin(o->arg, st) : -1;
    rc = pb_reader_open(r, dir, file, err);
    if (o->end)
        o->end(o->arg, begun);
    if (rc < 0)
        return -1;
    rc = check_aside(o, st, r->created_ns, err);
    if (rc == 0 && s->foreign)
        rc = pb_foreign_ring_check(r, s->uid, o->known, err);
    if (rc < 0)
        pb_reader_close(r);
    return rc;
}

static struct ring *open_ring(int dir, const char *file, ino_t inode, const struct pb_store *s,
                              const struct pb_surroundings *around, struct pb_err *err)
{
    struct ring *r = pb_alloc_resize(NULL, sizeof *r);
    struct stat st = {0};

    memset(r, 0, sizeof *r);
    fstatat(dir, file, &st, AT_SYMLINK_NOFOLLOW); /* what cannot be opened says why itself */
    if (open_reader(&r->pub.reader, dir, file, s, around->opts, &st, err) < 0) {
        free(r);
        return NULL;
    }
    if (around->opts->map && !s->foreign)
        pb_reader_map(&r->pub.reader);
    atomic_init(&r->refs, 1);
    snprintf(r->pub.file, sizeof r->pub.file, "%.*s", (int)sizeof r->pub.file - 1, file);
    r->pub.device = st.st_dev;
    r->pub.inode = inode;
    r->pub.store = identity_of(s);
    if (around->opts->adopt)
        around->opts->adopt(around->opts->arg, &r->pub);
    return r;
}

static struct ring *known_ring(const struct pb_store *old, const char *file, ino_t inode)
{
    for (size_t i = 0; old && i < old->nrings; i++) {
        struct ring *r = (struct ring *)old->rings[i];

        if (r->pub.inode == inode && strcmp(r->pub.file, file) == 0) {
            atomic_fetch_add(&r->refs, 1);
            return r;
        }
    }
    return NULL;
}

static bool is_ring_name(const char *name)
{
    return name[0] != '.' && strlen(name) < sizeof((struct pb_store_ring *)0)->file &&
           pb_home_is_ring(name);
}

static int by_file(const void *x, const void *y)
{
    return strcmp((*(struct pb_store_ring *const *)x)->file,
                  (*(struct pb_store_ring *const *)y)->file);
}

/*
 * Takes what another user's ring needs from what is left; closes it when that is too little.
 * Whoever makes rings without end then does without some of them, and nobody else does.
 */
static void find_room(struct ring **r, const struct pb_store *s, struct pb_surroundings *around,
                      struct pb_err *err)
{
    struct pb_ring_room *left = &around->room;
    const struct pb_reader *reader = *r ? &(*r)->pub.reader : NULL;

    if (reader && left->rings && left->columns >= reader->ncolumns) {
        left->rings--;
        left->columns -= reader->ncolumns;
        return;
    }
    if (*r)
        ring_drop(*r);
    *r = NULL;
    if (err->code == PB_OK)
        pb_err_set(err, PB_FAIL, "too many rings or columns of user %u", (unsigned)s->uid);
}

/* Returns whether every ring could be read. */
static bool read_rings(struct pb_store *s, const struct pb_store *old, int dir,
                       struct pb_surroundings *around)
{
    struct pb_buf troubles = PB_BUF_INIT;
    DIR *list = fdopendir(dup(dir));
    struct dirent *e;
    bool whole = true;
    int ntroubles = 0;

    for (int i = 0; i < FILES_MAX && list && s->nrings < RINGS_MAX && (e = readdir(list)); i++) {
        struct pb_err err = {0};
        struct ring *r;

        if (!is_ring_name(e->d_name))
            continue;
        r = known_ring(old, e->d_name, e->d_ino);
        if (!r && (!s->foreign || around->room.rings))
            r = open_ring(dir, e->d_name, e->d_ino, s, around, &err);
        if (s->foreign)
            find_room(&r, s, around, &err);
        if (!r) {
            if (ntroubles++ < TROUBLES_MAX)
                pb_buf_printf(&troubles, "%s: %s\n", e->d_name, err.msg);
            whole = false;
            continue;
        }
        atomic_store(&r->pub.rank, s->rank);
        s->rings = pb_alloc_resize(s->rings, (s->nrings + 1) * sizeof(void *));
        s->rings[s->nrings++] = &r->pub;
    }
    if (list)
        closedir(list);
    if (s->nrings)
        qsort(s->rings, s->nrings, sizeof(void *), by_file);
    s->troubles = copy_text(troubles.data ? troubles.data : "", troubles.len);
    pb_buf_finish(&troubles);
    return whole;
}

static void replace(struct pb_folder *f, struct pb_store *s)
{
    pb_store_unref(f->store);
    f->store = s;
}

int pb_folder_read(struct pb_folder *f, struct pb_surroundings *around)
{
    int dir = open(f->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct pb_store *s;
    struct stat st;
    bool whole;

    if (dir < 0 || fstat(dir, &st) < 0 || (!f->copied && pb_home_check(dir, f->owner) < 0)) {
        if (dir >= 0)
            close(dir);
        return -1;
    }
    pb_folder_stamp_set(&f->stamp, &st);
    s = new_version();
    s->meta = pb_meta_read(dir, PB_HOME_META);
    s->status = pb_meta_read(dir, PB_HOME_STATUS);
    s->end = pb_meta_read(dir, PB_HOME_END);
    if (f->process.live && *s->meta && !pb_meta_is(s->meta, "boot_id", around->boot_id))
        f->process.live = false;
    describe(s, f, around);
    whole = read_rings(s, f->store, dir, around);
    close(dir);
    if (!whole && pb_clock_wall_ns() - pb_clock_of_timespec(&st.st_mtim) < PATIENCE_NS)
        f->stamp.settled = false;
    if (!f->process.live && f->process.until_ns == 0)
        f->process.until_ns = pb_meta_number(s->end, "ended_ns", last_seen_ns(f, s));
    s->process.live = f->process.live;
    s->process.until_ns = f->process.live ? INT64_MAX : f->process.until_ns;
    /* What a killed agent leaves when it collected nothing is for the sweep, not for people. */
    if (!f->process.live && !s->nrings && !*s->meta) {
        pb_store_unref(s);
        s = NULL;
    }
    replace(f, s);
    return 0;
}

void pb_folder_mark_dead(struct pb_folder *f, struct pb_surroundings *around)
{
    struct pb_store *old = f->store, *s;

    f->process.live = false;
    f->process.until_ns = pb_clock_wall_ns();
    pb_folder_note_end(f);
    if (f->pidfd >= 0)
        close(f->pidfd);
    f->pidfd = -1;
    if (!old || pb_folder_read(f, around) == 0)
        return;
    /* The folder went with its container, but its rings are still mapped. */
    s = new_version();
    *s = *old;
    s->process.live = false;
    s->process.until_ns = f->process.until_ns;
    s->meta = copy_text(old->meta, strlen(old->meta));
    s->status = copy_text(old->status, strlen(old->status));
    s->end = copy_text(old->end, strlen(old->end));
    s->troubles = copy_text("", 0);
    s->rings = pb_alloc_resize(NULL, (old->nrings + 1) * sizeof(void *));
    for (size_t i = 0; i < old->nrings; i++) {
        atomic_fetch_add(&((struct ring *)old->rings[i])->refs, 1);
        s->rings[i] = old->rings[i];
    }
    replace(f, s);
}
