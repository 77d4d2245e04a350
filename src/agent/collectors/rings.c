/* The rings of this process: made on demand, within a budget, in its folder. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/collectors/collect.h"
#include "agent/collectors/internal.h"
#include "base/clock.h"

/* A ring gets at most this share of what is left, so that there is always some for the next. */
#define SHARE 4
#define DICT_BYTES (64 << 10)
#define HEAP_BYTES (256 << 10)
#define ROWS_MIN 64
/* Threads of C++ append without the GIL: one that was put aside in an append is back by then. */
#define OLD_NS UINT64_C(10000000000)

int pb_collect_folder(const struct pb_collect *c)
{
    return open(c->home, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int64_t size_at(int fd, const char *name)
{
    struct stat st;

    return syscall(SYS_newfstatat, fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_size : 0;
}

static bool add_size(int fd, const char *name, void *arg)
{
    if (pb_home_is_ring(name))
        *(int64_t *)arg += size_at(fd, name);
    return true;
}

int64_t pb_collect_ring_bytes(int folder)
{
    int64_t sum = 0;

    pb_home_list(folder, add_size, &sum);
    return sum;
}

static int64_t wanted_bytes(const struct pb_ring_spec *spec, uint64_t rows)
{
    static const unsigned char width[] = {
#define X(name, number, bytes, doc) [number] = bytes,
        PB_TYPES(X)
#undef X
    };
    uint64_t row = 8, extra = 0, names = 0, texts = 0;

    for (size_t i = 0; i < spec->ncolumns; i++) {
        row += width[spec->columns[i].type];
        names += spec->columns[i].type == PB_NAME;
        texts += spec->columns[i].type == PB_TEXT;
    }
    if (names)
        extra += spec->dict_bytes ? spec->dict_bytes : DICT_BYTES;
    if (texts)
        extra += spec->heap_bytes ? spec->heap_bytes : HEAP_BYTES;
    return (int64_t)(rows * row + extra + sizeof(struct pb_ring_head) +
                     spec->ncolumns * (sizeof(struct pb_ring_column) + 64));
}

static uint64_t power_of_two(uint64_t rows)
{
    uint64_t n = ROWS_MIN;

    while (n < rows && n < (uint64_t)1 << 40)
        n *= 2;
    return n;
}

/* Called with lock held. */
static void note(struct pb_self *self, const char *table, const char *what)
{
    struct pb_collect *c = self->collect;

    if (!c->note[0])
        snprintf(c->note, sizeof c->note, "%.60s: %.90s", table, what);
    c->status_stale = true;
}

static bool read_head(int fd, const char *name, struct pb_ring_head *ret)
{
    int file = openat(fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t n = file >= 0 ? pread(file, ret, sizeof *ret, 0) : 0;

    if (file >= 0)
        close(file);
    return n == (ssize_t)sizeof *ret;
}

static bool add_used(int fd, const char *name, void *arg)
{
    struct pb_ring_head head;

    if (pb_home_is_ring(name) && read_head(fd, name, &head) && !head.closed)
        *(int64_t *)arg += size_at(fd, name);
    return true;
}

/*
 * Bytes of rings that somebody in this process writes. Those of an agent that has left are beside
 * them until they are read out, at most half of the budget (pb_collect_make_room).
 */
static int64_t used_bytes(int folder)
{
    int64_t sum = 0;

    pb_home_list(folder, add_used, &sum);
    return sum;
}

/* Makes the spec fit the budget. Called with lock held. False when not even a small ring does. */
static bool fit(struct pb_self *self, int folder, struct pb_ring_spec *spec)
{
    int64_t left = self->collect->budget - used_bytes(folder);
    int64_t share = left / SHARE;
    uint64_t rows = power_of_two(spec->rows), asked = rows;

    while (rows > ROWS_MIN && wanted_bytes(spec, rows) > share)
        rows /= 2;
    if (wanted_bytes(spec, rows) > left)
        return false;
    if (rows < asked)
        note(self, spec->name, "smaller than wanted: store.budget_mb is used up");
    spec->rows = rows;
    return true;
}

/* Called with lock held. */
static struct pb_ring *make(struct pb_self *self, const struct pb_ring_spec *wanted)
{
    struct pb_collect *c = self->collect;
    struct pb_ring_spec spec = *wanted;
    struct pb_ring *ring = NULL;
    struct pb_err err = {0};
    const char *why = NULL;
    int folder = pb_collect_folder(c);

    if (folder < 0) {
        note(self, spec.name, "the folder is gone");
        return NULL;
    }
    if (c->nrings == PB_RINGS_MAX)
        note(self, spec.name, "not written: too many tables");
    else if (!fit(self, folder, &spec))
        note(self, spec.name, "not written: store.budget_mb is used up");
    else if (pb_ring_create(&ring, folder, &spec, &why, &err) < 0)
        note(self, spec.name, err.msg);
    else if (why)
        note(self, spec.name, why);
    close(folder);
    if (ring) {
        c->rings[c->nrings].ring = ring;
        snprintf(c->rings[c->nrings++].name, PB_RING_NAME, "%s", spec.name);
        c->status_stale = true;
    }
    return ring;
}

struct pb_ring *pb_collect_ring(struct pb_self *self, const struct pb_ring_spec *spec)
{
    struct pb_collect *c = self->collect;
    struct pb_ring *ring = NULL;

    if (!c->on)
        return NULL;
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < c->nrings && !ring; i++)
        if (strcmp(c->rings[i].name, spec->name) == 0)
            ring = c->rings[i].ring;
    if (!ring && c->on) {
        /* Who finds the ring finds out whose it is. */
        if (atomic_exchange(&c->meta_stale, false))
            pb_collect_write_meta(self);
        ring = make(self, spec);
    }
    pthread_mutex_unlock(&c->lock);
    if (c->status_stale)
        pb_self_wake(self);
    return ring;
}

void pb_collect_set_note(struct pb_self *self, const char *text)
{
    struct pb_collect *c = self->collect;

    pthread_mutex_lock(&c->lock);
    if (!c->note[0])
        snprintf(c->note, sizeof c->note, "%s", text);
    pthread_mutex_unlock(&c->lock);
    c->status_stale = true;
}

/* Makes room for more, and closes what was retired long ago. Called with lock held. */
static void close_old(struct pb_collect *c, size_t more, uint64_t now)
{
    size_t room = sizeof c->old / sizeof *c->old - more, n = 0;

    while (n < c->nold && (c->nold - n > room || now - c->old[n].retired_ns > OLD_NS))
        pb_ring_close(c->old[n++].ring);
    c->nold -= n;
    memmove(c->old, c->old + n, c->nold * sizeof *c->old);
}

void pb_collect_retire_rings(struct pb_self *self)
{
    struct pb_collect *c = self->collect;
    uint64_t now = pb_clock_ns();

    close_old(c, c->nrings, now);
    for (size_t i = 0; i < c->nrings; i++) {
        pb_ring_retire(c->rings[i].ring);
        c->old[c->nold++] = (struct pb_ring_old){c->rings[i].ring, now};
    }
    c->nrings = 0;
}

/* The oldest ring file, by name order of time. */
struct oldest {
    struct timespec time;
    char name[128];
};

static bool find_oldest(int fd, const char *name, void *arg)
{
    struct oldest *o = arg;
    struct stat st;

    if (!pb_home_is_ring(name) || strlen(name) >= sizeof o->name ||
        syscall(SYS_newfstatat, fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return true;
    if (!o->name[0] || st.st_mtim.tv_sec < o->time.tv_sec ||
        (st.st_mtim.tv_sec == o->time.tv_sec && st.st_mtim.tv_nsec < o->time.tv_nsec)) {
        o->time = st.st_mtim;
        strcpy(o->name, name);
    }
    return true;
}

void pb_collect_make_room(struct pb_self *self)
{
    struct pb_collect *c = self->collect;
    int folder = pb_collect_folder(c);

    while (folder >= 0 && pb_collect_ring_bytes(folder) > c->budget / 2) {
        struct oldest o = {0};

        pb_home_list(folder, find_oldest, &o);
        if (!o.name[0] || unlinkat(folder, o.name, 0) < 0)
            break;
    }
    if (folder >= 0)
        close(folder);
}

static bool find_kept(int fd, const char *name, void *arg)
{
    struct pb_ring_head head;

    if (!pb_home_is_ring(name))
        return true;
    *(bool *)arg = read_head(fd, name, &head) && head.flags & PB_RING_KEEP && head.next > 0;
    return !*(bool *)arg;
}

bool pb_collect_is_kept(int folder)
{
    bool kept = false;

    pb_home_list(folder, find_kept, &kept);
    return kept;
}
