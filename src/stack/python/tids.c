#include "stack/python/tids.h"

#include <stdlib.h>
#include <string.h>

#include "host/process/proc.h"
#include "stack/values/pointer.h"

/* Where glibc of x86_64 keeps a thread's id in struct pthread; elsewhere it is searched for. */
#define TID_OFFSET_GUESS 0x2d0
#define PTHREAD_MAX 2304
#define PID_LIMIT (1 << 22) /* the kernel gives no higher numbers */

struct search {
    struct pb_mem *mem;
    const pid_t *tids, *inner; /* thread ids in our numbers, and in the target's */
    pid_t *sorted;             /* inner, ascending */
    size_t n;
};

static int compare_pid(const void *x, const void *y)
{
    pid_t a = *(const pid_t *)x, b = *(const pid_t *)y;

    return (a > b) - (a < b);
}

/* The thread ids that the target itself sees: others inside a pid namespace. */
static pid_t *inner_tids(pid_t pid, const pid_t *tids, size_t n, struct pb_arena *a)
{
    pid_t *inner = PB_NEW_N(a, pid_t, n + 1);
    struct pb_proc_status st = {0};
    struct pb_err ignored = {0};
    bool same = pb_proc_status(&st, pid, &ignored) < 0 || st.ns_pid == pid;

    for (size_t i = 0; i < n; i++) {
        inner[i] = tids[i];
        if (!same && pb_proc_status(&st, tids[i], &ignored) == 0)
            inner[i] = st.ns_pid;
    }
    return inner;
}

static pid_t outer_tid(const struct search *s, pid_t tid)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->inner[i] == tid)
            return s->tids[i];
    return 0;
}

/* The number at this offset inside struct pthread, 0 when no process can have it as an id. */
static pid_t number_at(const struct search *s, const struct pb_py_thread *t, uint64_t offset)
{
    pid_t tid;

    return pb_mem_u32(s->mem, t->ident + offset, (uint32_t *)&tid) && tid > 0 && tid <= PID_LIMIT
               ? tid
               : 0;
}

static bool is_missing(const struct pb_py_thread *t)
{
    return !t->tid && pb_py_plausible(t->ident);
}

/*
 * How many of the threads without an id have one at this offset. After a fork by C code the
 * threads of the parent are still in the interpreter's list, with the ids that they have there.
 */
static size_t count_fits(const struct search *s, const struct pb_py_threads *t, uint64_t offset)
{
    size_t fits = 0;

    for (size_t i = 0; i < t->n; i++) {
        pid_t tid = is_missing(&t->v[i]) ? number_at(s, &t->v[i], offset) : 0;

        if (is_missing(&t->v[i]) && !tid)
            return 0;
        fits += tid && bsearch(&tid, s->sorted, s->n, sizeof tid, compare_pid);
    }
    return fits;
}

/* The offset is the same for all threads: the one that most of them agree with. */
static uint64_t find_offset(const struct search *s, const struct pb_py_threads *t)
{
    uint64_t best = PTHREAD_MAX;
    size_t most = 0;

    if (count_fits(s, t, TID_OFFSET_GUESS))
        return TID_OFFSET_GUESS;
    for (uint64_t at = 0; at < PTHREAD_MAX; at += 4) {
        size_t fits = count_fits(s, t, at);

        if (fits > most) {
            most = fits;
            best = at;
        }
    }
    return best;
}

void pb_py_tids_find(struct pb_mem *mem, pid_t pid, const pid_t *tids, size_t ntids,
                     struct pb_arena *a, struct pb_py_threads *threads)
{
    pid_t *inner = inner_tids(pid, tids, ntids, a);
    struct search s = {mem, tids, inner, PB_NEW_N(a, pid_t, ntids + 1), ntids};
    uint64_t offset;
    bool missing = false;

    memcpy(s.sorted, inner, ntids * sizeof *inner);
    qsort(s.sorted, ntids, sizeof *s.sorted, compare_pid);
    for (size_t i = 0; i < threads->n; i++) {
        threads->v[i].tid = outer_tid(&s, threads->v[i].tid);
        missing = missing || is_missing(&threads->v[i]);
    }
    offset = missing ? find_offset(&s, threads) : PTHREAD_MAX;
    for (size_t i = 0; i < threads->n && offset < PTHREAD_MAX; i++)
        if (is_missing(&threads->v[i]))
            threads->v[i].tid = outer_tid(&s, number_at(&s, &threads->v[i], offset));
}
