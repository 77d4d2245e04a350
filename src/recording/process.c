#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/text/alloc.h"
#include "recording/internal.h"

/* The list of threads is read this often even if their number stays the same. */
#define REFRESH_NS 250000000u
#define REFRESH_SLOW_NS 1000000000u /* where few samples are wanted */
#define SLOW_HZ 50
/* Code objects are known by address, and an address may come to hold another. */
#define FORGET_AFTER 240
/* More than any program's stacks need. */
#define CODES_BYTES ((size_t)16 << 20)

/* Where the interpreter of the program is that the process runs now. */
static int locate(struct pb_prof_process *p, struct pb_err *err)
{
    struct pb_proc_stat st;

    if (pb_proc_stat(&st, p->pid, 0, err) < 0)
        return -1;
    p->code = st.code;
    p->stack = st.stack;
    pb_maps_finish(&p->maps);
    if (pb_maps_read(&p->maps, p->pid, err) < 0 ||
        pb_py_locate(&p->loc, p->pid, &p->maps, &p->mem, &p->arena, err) < 0)
        return -1;
    pb_py_codes_init(&p->codes, &p->mem, &p->loc.layout);
    p->located = true;
    return 0;
}

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
    if (p->task < 0 || locate(p, err) < 0)
        goto close;
    *ret = p;
    return 0;
close:
    pb_prof_close(p);
    return pb_err_prefix(err, "%d", (int)pid);
}

/* What is known of the program, and its threads. */
static void forget_program(struct pb_prof_process *p)
{
    for (size_t i = 0; i < p->nthreads; i++)
        close(p->threads[i].schedstat);
    p->nthreads = 0;
    pb_py_codes_finish(&p->codes);
    pb_native_destroy(p->native);
    p->native = NULL;
    pb_maps_finish(&p->fresh);
    pb_maps_finish(&p->maps);
    pb_arena_finish(&p->arena);
    memset(&p->loc, 0, sizeof p->loc);
    p->active = 0;
    p->located = false;
}

void pb_prof_close(struct pb_prof_process *p)
{
    if (!p)
        return;
    forget_program(p);
    free(p->threads);
    if (p->task >= 0)
        close(p->task);
    free(p);
}

/* Without the tables there are Python frames only; never a reason to end. */
static void refresh_native(struct pb_prof_process *p)
{
    struct pb_err ignored = {0};

    pb_maps_finish(&p->fresh);
    if (pb_maps_read(&p->fresh, p->pid, &ignored) < 0)
        return;
    if (p->native && pb_maps_same_code(&p->maps, &p->fresh))
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

/* Numbers are given from below: half of those that there are stay free, whatever is watched. */
static bool is_affordable(int fd)
{
    struct rlimit l;

    return getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur == RLIM_INFINITY ||
           (rlim_t)fd < l.rlim_cur / 2;
}

static struct pb_prof_thread *add(struct pb_prof_process *p, pid_t tid, const char *name,
                                  uint64_t since_ns, struct pb_recording *rec)
{
    struct pb_prof_thread *t;
    char path[64];
    int fd;

    snprintf(path, sizeof path, "%d/schedstat", (int)tid);
    fd = openat(p->task, path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && !is_affordable(fd)) {
        close(fd);
        return NULL;
    }
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
static void adopt_state(struct pb_prof_thread *t, const struct pb_py_thread *py)
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
            adopt_state(t, &py.v[i]);
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

/* After exec the interpreter is another one; false: it is starting, or there is none. */
static bool follow_exec(struct pb_prof_process *p, const struct pb_proc_stat *st)
{
    struct pb_err ignored = {0};

    if (st->code != p->code || st->stack != p->stack)
        forget_program(p);
    return p->located || locate(p, &ignored) == 0;
}

static void list_threads(struct pb_prof_process *p, const struct pb_sampler_opts *o,
                         const pid_t *tids, size_t ntids, uint64_t since_ns,
                         struct pb_recording *rec)
{
    struct pb_arena arena = PB_ARENA_INIT;

    if (++p->refreshes % FORGET_AFTER == 0 || p->codes.arena.bytes > CODES_BYTES) {
        pb_py_codes_finish(&p->codes);
        pb_py_codes_init(&p->codes, &p->mem, &p->loc.layout);
    }
    for (size_t i = 0; i < p->nthreads; i++)
        p->threads[i].listed = false;
    list_python(p, tids, ntids, since_ns, &arena, rec);
    if (o->native) {
        list_others(p, tids, ntids, since_ns, &arena, rec);
        refresh_native(p);
    }
    drop_unlisted(p);
    pb_arena_finish(&arena);
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

    if (!p->stale && nlink == p->nlink &&
        now - p->refreshed_ns < (o->rate < SLOW_HZ ? REFRESH_SLOW_NS : REFRESH_NS))
        return;
    if (pb_proc_stat(&st, p->pid, p->pid, &ignored) < 0 || st.state == 'Z' || st.state == 'X' ||
        (ntids = pb_proc_threads(p->pid, &arena, &tids, &ignored)) < 0) {
        p->ended = true;
        pb_arena_finish(&arena);
        return;
    }
    p->stopped = st.state == 'T' || st.state == 't';
    if (follow_exec(p, &st))
        list_threads(p, o, tids, (size_t)ntids, since_ns, rec);
    p->stale = false;
    p->nlink = nlink;
    p->refreshed_ns = now;
    pb_arena_finish(&arena);
}
