#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/home.h"
#include "host/agent.h"
#include "host/alloc.h"
#include "host/buf.h"
#include "node/discover_internal.h"

#define TEXT_MAX (64 << 10)
#define RINGS_MAX 1024
/* Times of files are as coarse as a tick of the kernel; a hundredth of a second at worst. */
#define SETTLE_NS 50000000ll
/* A ring that cannot be read may be in the making; later it is just broken. */
#define PATIENCE_NS 10000000000ll
/* Rows about a process that others wrote may be younger than its own last row. */
#define SLACK_NS 2000000000ll
#define LAST_ROWS 64

struct version {
    struct pb_store pub;
    _Atomic int refs;
};

struct ring {
    struct pb_store_ring pub;
    _Atomic int refs;
};

static int64_t ns_of(const struct timespec *ts)
{
    return (int64_t)ts->tv_sec * 1000000000 + ts->tv_nsec;
}

bool pb_folder_stamp_same(const struct pb_folder_stamp *s, const struct stat *st)
{
    return s->settled && s->dev == st->st_dev && s->ino == st->st_ino &&
           ns_of(&s->mtime) == ns_of(&st->st_mtim);
}

void pb_folder_stamp_set(struct pb_folder_stamp *s, const struct stat *st)
{
    *s = (struct pb_folder_stamp){st->st_dev, st->st_ino, st->st_mtim,
                                  pb_now_ns() - ns_of(&st->st_mtim) > SETTLE_NS};
}

struct pb_store *pb_store_take(struct pb_store *s)
{
    atomic_fetch_add(&((struct version *)s)->refs, 1);
    return s;
}

static void ring_drop(struct ring *r)
{
    if (atomic_fetch_sub(&r->refs, 1) > 1)
        return;
    pb_reader_close(&r->pub.reader);
    pb_store_drop((struct pb_store *)r->pub.store);
    free(r);
}

void pb_store_drop(struct pb_store *s)
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

/* A small file of lines; "" when it is not there. */
static char *read_text(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    char *text = pb_alloc_resize(NULL, TEXT_MAX);
    size_t len = 0;
    struct stat st;
    ssize_t n;

    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        while (len + 1 < TEXT_MAX && (n = read(fd, text + len, TEXT_MAX - 1 - len)) > 0)
            len += (size_t)n;
    if (fd >= 0)
        close(fd);
    /* What is no text ends it. */
    text[len] = '\0';
    return pb_alloc_resize(text, strlen(text) + 1);
}

static int64_t number_in(const char *lines, const char *key, int64_t otherwise)
{
    struct pb_arena a = PB_ARENA_INIT;
    const char *text = pb_store_value(lines, key, &a);
    int64_t v = otherwise;
    char *end;

    if (text && *text) {
        v = strtoll(text, &end, 10);
        if (*end)
            v = otherwise;
    }
    pb_arena_finish(&a);
    return v;
}

static bool is_value(const char *lines, const char *key, const char *value)
{
    struct pb_arena a = PB_ARENA_INIT;
    const char *text = pb_store_value(lines, key, &a);
    bool same = text && strcmp(text, value) == 0;

    pb_arena_finish(&a);
    return same;
}

char *pb_store_value(const char *lines, const char *key, struct pb_arena *a)
{
    return pb_agent_value(lines, key, a);
}

bool pb_folder_identify(const char *path, pid_t *ret_pid, uint64_t *ret_start)
{
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int64_t pid, start;
    char *meta;

    if (dir < 0)
        return false;
    meta = read_text(dir, PB_HOME_META);
    close(dir);
    pid = number_in(meta, "pid", 0);
    start = number_in(meta, "start", 0);
    free(meta);
    if (pid <= 0 || pid > INT32_MAX || start <= 0)
        return pb_process_id_parse(strrchr(path, '/') + 1, ret_pid, ret_start);
    *ret_pid = (pid_t)pid;
    *ret_start = (uint64_t)start;
    return true;
}

/* Time of the newest of a ring's last rows; rows may be out of order by a little. */
static int64_t last_row_ns(const struct pb_reader *r)
{
    int64_t times[LAST_ROWS], last = 0;
    uint64_t rows[LAST_ROWS], first, next;
    void *out[] = {times};
    size_t column = 0, n;

    if (!r->ncolumns || r->columns[0].type != PB_TIME)
        return 0;
    pb_reader_range(r, &first, &next);
    if (next - first > LAST_ROWS)
        first = next - LAST_ROWS;
    n = pb_reader_copy(r, first, (size_t)(next - first), &column, 1, out, rows, NULL);
    for (size_t i = 0; i < n; i++)
        if (times[i] > last)
            last = times[i];
    return last;
}

/* When a process that nobody saw ending was last seen. */
static int64_t last_seen_ns(const struct pb_folder *f, const struct pb_store *s)
{
    int64_t last = ns_of(&f->stamp.mtime), row;

    for (size_t i = 0; i < s->nrings; i++) {
        /* Rows about others go on in the node's own rings. */
        row = last_row_ns(&s->rings[i]->reader);
        if (row > last && row < pb_now_ns() + SLACK_NS)
            last = row;
    }
    return last + SLACK_NS;
}

static void describe(struct pb_store *s, const struct pb_folder *f,
                     const struct pb_surroundings *around)
{
    struct pb_arena a = PB_ARENA_INIT;
    const char *host = pb_store_value(s->meta, "host", &a);
    bool other_boot = !is_value(s->meta, "boot_id", around->boot_id) && *s->meta;

    snprintf(s->path, sizeof s->path, "%s", f->path);
    s->process = f->process;
    s->ns_pid = f->ns_pid;
    s->uid = f->owner;
    s->foreign = !f->copied && f->owner != geteuid();
    /* Here a container's host name is not what the machine is called. */
    snprintf(s->host, sizeof s->host, "%s",
             host && *host && (other_boot || f->copied) ? host : around->host);
    s->rank = number_in(s->meta, "rank", -1);
    s->world_size = number_in(s->meta, "world_size", -1);
    s->local_rank = number_in(s->meta, "local_rank", -1);
    s->process.since_ns = other_boot || f->copied
                              ? number_in(s->meta, "started_ns", 0)
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

/* What speaks against a ring that can be read; "" for nothing. */
static void object(const struct pb_reader *r, const struct pb_store *s,
                   const struct pb_surroundings *around, char *why, size_t cap)
{
    const struct pb_discover_opts *o = around->opts;

    why[0] = '\0';
    if (s->foreign && (r->flags & PB_RING_SHARED))
        snprintf(why, cap, "rows about others' processes, written by user %u", (unsigned)s->uid);
    else if (o->set_aside)
        o->set_aside(o->arg, r, why, cap);
}

static struct ring *open_ring(int dir, const char *file, ino_t inode, const struct pb_store *s,
                              const struct pb_surroundings *around, struct pb_err *err)
{
    struct ring *r = pb_alloc_resize(NULL, sizeof *r);
    char why[160];

    memset(r, 0, sizeof *r);
    if (pb_reader_open(&r->pub.reader, dir, file, err) < 0) {
        free(r);
        return NULL;
    }
    object(&r->pub.reader, s, around, why, sizeof why);
    if (*why) {
        pb_err_set(err, PB_FAIL, "%s", why);
        pb_reader_close(&r->pub.reader);
        free(r);
        return NULL;
    }
    if (around->opts->map && !s->foreign)
        pb_reader_map(&r->pub.reader);
    atomic_init(&r->refs, 1);
    snprintf(r->pub.file, sizeof r->pub.file, "%.*s", (int)sizeof r->pub.file - 1, file);
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

/* Returns whether every ring could be read. */
static bool read_rings(struct pb_store *s, const struct pb_store *old, int dir,
                       const struct pb_surroundings *around)
{
    struct pb_buf troubles = PB_BUF_INIT;
    DIR *list = fdopendir(dup(dir));
    struct dirent *e;
    bool whole = true;

    while (list && s->nrings < RINGS_MAX && (e = readdir(list))) {
        struct pb_err err = {0};
        struct ring *r;

        if (!is_ring_name(e->d_name))
            continue;
        r = known_ring(old, e->d_name, e->d_ino);
        if (!r)
            r = open_ring(dir, e->d_name, e->d_ino, s, around, &err);
        if (!r) {
            pb_buf_printf(&troubles, "%s: %s\n", e->d_name, err.msg);
            whole = false;
            continue;
        }
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
    pb_store_drop(f->store);
    f->store = s;
}

int pb_folder_read(struct pb_folder *f, const struct pb_surroundings *around)
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
    s->meta = read_text(dir, PB_HOME_META);
    s->status = read_text(dir, PB_HOME_STATUS);
    s->end = read_text(dir, PB_HOME_END);
    if (f->process.live && *s->meta && !is_value(s->meta, "boot_id", around->boot_id))
        f->process.live = false;
    describe(s, f, around);
    whole = read_rings(s, f->store, dir, around);
    close(dir);
    if (!whole && pb_now_ns() - ns_of(&st.st_mtim) < PATIENCE_NS)
        f->stamp.settled = false;
    if (!f->process.live && f->process.until_ns == 0)
        f->process.until_ns = number_in(s->end, "ended_ns", last_seen_ns(f, s));
    s->process.live = f->process.live;
    s->process.until_ns = f->process.live ? INT64_MAX : f->process.until_ns;
    /* What a killed agent leaves when it collected nothing is for the sweep, not for people. */
    if (!f->process.live && !s->nrings && !*s->meta) {
        pb_store_drop(s);
        s = NULL;
    }
    replace(f, s);
    return 0;
}

void pb_folder_bury(struct pb_folder *f, const struct pb_surroundings *around)
{
    struct pb_store *old = f->store, *s;

    f->process.live = false;
    f->process.until_ns = pb_now_ns();
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
