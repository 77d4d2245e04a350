#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/alloc.h"
#include "profile/internal.h"

/* The list of threads is read this often even if their number stays the same. */
#define REFRESH_NS 250000000u
/* Code objects are known by address, and an address may come to hold another. */
#define FORGET_AFTER 240

int pb_prof_open(struct pb_prof_process **ret, pid_t pid, const char *hint, struct pb_err *err)
{
    struct pb_prof_process *p;
    char path[64];

    if (pb_proc_check_access(pid, hint, err) < 0)
        return -1;
    p = calloc(1, sizeof *p);
    if (!p)
        return pb_err_set(err, PB_FAIL, "out of memory");
    p->pid = pid;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    p->task = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    pb_mem_init_process(&p->mem, pid);
    if (p->task < 0)
        pb_err_set(err, errno == ENOENT ? PB_NO_TARGET : PB_FAIL, "%s", strerror(errno));
    if (p->task < 0 || pb_maps_read(&p->maps, pid, err) < 0 ||
        pb_py_locate(&p->loc, pid, &p->maps, &p->mem, &p->arena, err) < 0)
        goto close;
    pb_py_codes_init(&p->codes, &p->mem, &p->loc.layout);
    *ret = p;
    return 0;
close:
    pb_prof_close(p);
    return pb_err_prefix(err, "%d", (int)pid);
}

void pb_prof_close(struct pb_prof_process *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->nthreads; i++)
        close(p->threads[i].schedstat);
    free(p->threads);
    pb_py_codes_finish(&p->codes);
    pb_native_destroy(p->native);
    pb_maps_finish(&p->fresh);
    pb_maps_finish(&p->maps);
    pb_arena_finish(&p->arena);
    if (p->task >= 0)
        close(p->task);
    free(p);
}

/* Code appeared or went away? Then the native tables must be made anew. */
static bool same_code(const struct pb_maps *x, const struct pb_maps *y)
{
    size_t i = 0, j = 0;

    for (;; i++, j++) {
        while (i < x->n && !x->v[i].exec)
            i++;
        while (j < y->n && !y->v[j].exec)
            j++;
        if (i == x->n || j == y->n)
            return i == x->n && j == y->n;
        if (x->v[i].start != y->v[j].start || x->v[i].end != y->v[j].end ||
            x->v[i].inode != y->v[j].inode)
            return false;
    }
}

/* Without the tables there are Python frames only; never a reason to end. */
static void refresh_native(struct pb_prof_process *p)
{
    struct pb_err ignored = {0};

    pb_maps_finish(&p->fresh);
    if (pb_maps_read(&p->fresh, p->pid, &ignored) < 0)
        return;
    if (p->native && same_code(&p->maps, &p->fresh))
        return;
    pb_native_destroy(p->native);
    p->native = NULL;
    pb_maps_finish(&p->maps);
    p->maps = p->fresh;
    memset(&p->fresh, 0, sizeof p->fresh);
    if (pb_native_create(&p->native, p->pid, &p->maps, &p->mem, &ignored) < 0)
        p->native = NULL;
}

static struct pb_prof_thread *find(struct pb_prof_process *p, pid_t tid)
{
    for (size_t i = 0; i < p->nthreads; i++)
        if (p->threads[i].tid == tid)
            return &p->threads[i];
    return NULL;
}

static struct pb_prof_thread *add(struct pb_prof_process *p, pid_t tid, const char *name,
                                  uint64_t since_ns, struct pb_recording *rec)
{
    struct pb_prof_thread *t;
    char path[64];
    int fd;

    snprintf(path, sizeof path, "%d/schedstat", (int)tid);
    fd = openat(p->task, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    if (p->nthreads == p->cap) {
        p->cap = p->cap ? p->cap * 2 : 32;
        p->threads = pb_alloc_resize(p->threads, p->cap * sizeof *p->threads);
    }
    t = &p->threads[p->nthreads++];
    *t = (struct pb_prof_thread){.tid = tid, .schedstat = fd, .sampled_ns = since_ns};
    t->last.thread = pb_recording_thread(rec, p->pid, tid, name);
    return t;
}

/*
 * Takes a thread state over, the innermost first where the C stack does not tell: who has the GIL,
 * then the younger. Only a thread with one state, the same as before, may still be where it was.
 */
static void take_part(struct pb_prof_thread *t, const struct pb_py_thread *py)
{
    size_t at = 0;

    if (!t->listed) {
        t->known = t->known && t->npy == 1 && t->py[0].tstate == py->tstate;
        t->listed = true;
        t->npy = 0;
    }
    if (t->npy == PB_PROF_PARTS)
        return;
    if (t->npy) {
        t->known = false;
        at = t->py[0].holds_gil && !py->holds_gil;
        memmove(&t->py[at + 1], &t->py[at], (t->npy - at) * sizeof *t->py);
    }
    t->py[at] = *py;
    t->py[at].name = NULL; /* it lives in the arena of this refresh */
    t->npy++;
}

/* Python's name for a thread, else the kernel's. */
static const char *name_of(pid_t pid, pid_t tid, const struct pb_py_thread *py, struct pb_arena *a)
{
    struct pb_proc_stat st;
    struct pb_err ignored = {0};

    if (py && py->name)
        return py->name;
    if (py && tid == pid)
        return "MainThread";
    if (pb_proc_stat(&st, pid, tid, &ignored) < 0)
        return "";
    return pb_arena_strdup(a, st.comm);
}

static void list_python(struct pb_prof_process *p, const pid_t *tids, size_t ntids,
                        uint64_t since_ns, struct pb_arena *a, struct pb_recording *rec)
{
    struct pb_py_reader reader = p->codes.reader;
    struct pb_py_threads py;
    bool named = false;

    reader.arena = a;
    pb_py_threads_read(&p->loc, &p->mem, p->pid, tids, ntids, a, &py);
    for (size_t i = 0; i < py.n; i++) {
        pid_t tid = py.v[i].tid;
        struct pb_prof_thread *t = tid ? find(p, tid) : NULL;

        if (!tid)
            continue;
        if (!t) {
            if (!named)
                pb_py_threads_name(&reader, &py, &p->active);
            named = true;
            t = add(p, tid, name_of(p->pid, tid, &py.v[i], a), since_ns, rec);
        }
        if (t)
            take_part(t, &py.v[i]);
    }
}

static void list_others(struct pb_prof_process *p, const pid_t *tids, size_t ntids,
                        uint64_t since_ns, struct pb_arena *a, struct pb_recording *rec)
{
    for (size_t i = 0; i < ntids; i++) {
        struct pb_prof_thread *t = find(p, tids[i]);

        if (!t)
            t = add(p, tids[i], name_of(p->pid, tids[i], NULL, a), since_ns, rec);
        if (t && !t->listed) {
            t->listed = true;
            t->npy = 0;
        }
    }
}

static void drop_unlisted(struct pb_prof_process *p)
{
    size_t n = 0;

    for (size_t i = 0; i < p->nthreads; i++) {
        if (p->threads[i].listed)
            p->threads[n++] = p->threads[i];
        else
            close(p->threads[i].schedstat);
    }
    p->nthreads = n;
}

/* Its number of threads is part of what the kernel says of the folder: O(1), no list is made. */
static uint64_t count_links(struct pb_prof_process *p)
{
    struct stat st;

    return fstat(p->task, &st) == 0 ? st.st_nlink : 0;
}

void pb_prof_refresh(struct pb_prof_process *p, const struct pb_sampler_opts *o, uint64_t now,
                     uint64_t since_ns, struct pb_recording *rec)
{
    struct pb_arena arena = PB_ARENA_INIT;
    struct pb_err ignored = {0};
    struct pb_proc_stat st;
    uint64_t nlink = count_links(p);
    pid_t *tids;
    int ntids;

    if (!p->stale && nlink == p->nlink && now - p->refreshed_ns < REFRESH_NS)
        return;
    if (pb_proc_stat(&st, p->pid, p->pid, &ignored) < 0 || st.state == 'Z' || st.state == 'X' ||
        (ntids = pb_proc_threads(p->pid, &arena, &tids, &ignored)) < 0) {
        p->ended = true;
        pb_arena_finish(&arena);
        return;
    }
    p->stopped = st.state == 'T' || st.state == 't';
    if (++p->refreshes % FORGET_AFTER == 0) {
        pb_py_codes_finish(&p->codes);
        pb_py_codes_init(&p->codes, &p->mem, &p->loc.layout);
    }
    for (size_t i = 0; i < p->nthreads; i++)
        p->threads[i].listed = false;
    list_python(p, tids, (size_t)ntids, since_ns, &arena, rec);
    if (o->native) {
        list_others(p, tids, (size_t)ntids, since_ns, &arena, rec);
        refresh_native(p);
    }
    drop_unlisted(p);
    p->stale = false;
    p->nlink = nlink;
    p->refreshed_ns = now;
    pb_arena_finish(&arena);
}
