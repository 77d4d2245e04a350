#include "stack/choose.h"

#include <stdlib.h>

static int compare_pid(const void *x, const void *y)
{
    pid_t a = *(const pid_t *)x, b = *(const pid_t *)y;

    return (a > b) - (a < b);
}

/* More states than this on one thread are nobody's program. */
#define STATES_MAX 64

/* The innermost first where the C stack does not tell: who has the GIL, then the younger. */
static void add_state(struct pb_work *w, const struct pb_py_thread *py, struct pb_arena *a)
{
    size_t n = w->npy + 1, at = 0;
    const struct pb_py_thread **v;

    if (n > STATES_MAX)
        return;
    v = PB_NEW_N(a, const struct pb_py_thread *, n);
    w->tstates = PB_NEW_N(a, uint64_t, n);
    if (w->npy && w->py[0]->holds_gil && !py->holds_gil)
        at = 1;
    for (size_t i = 0, from = 0; i < n; i++) {
        v[i] = i == at ? py : w->py[from++];
        w->tstates[i] = v[i]->tstate;
    }
    w->py = v;
    w->npy = n;
}

struct choice {
    struct pb_work *work;
    size_t n;
    const pid_t *tids;
    size_t ntids;
    size_t *slot; /* 1 + index of the work of each of tids, 0: none yet */
    struct pb_arena *a;
};

static void choose_thread(struct choice *c, pid_t tid, const struct pb_py_thread *py)
{
    const pid_t *at = bsearch(&tid, c->tids, c->ntids, sizeof tid, compare_pid);
    size_t *slot = at ? &c->slot[at - c->tids] : NULL;

    if (!slot || !*slot) {
        c->work[c->n++] = (struct pb_work){.tid = tid};
        if (slot)
            *slot = c->n;
    }
    if (py)
        add_state(&c->work[slot ? *slot - 1 : c->n - 1], py, c->a);
}

size_t pb_choose(pid_t pid, const struct pb_snapshot_opts *o, const struct pb_py_threads *py,
                 const pid_t *tids, size_t ntids, struct pb_arena *a, struct pb_work **ret)
{
    struct choice c = {PB_NEW_N(a, struct pb_work, py->n + ntids + 1), 0, tids, ntids,
                       PB_NEW_N(a, size_t, ntids + 1), a};

    for (size_t i = 0; i < py->n; i++) {
        bool wanted = o->all || (o->tid && py->v[i].tid == o->tid) ||
                      (!o->tid && py->v[i].tid == pid);

        /* A thread that is only being made has no id yet, and no frames. */
        if (wanted && py->v[i].tid)
            choose_thread(&c, py->v[i].tid, &py->v[i]);
    }
    /* An embedded interpreter may live on another thread than the first. */
    for (size_t i = 0; !c.n && !o->all && !o->tid && i < py->n; i++)
        if (py->v[i].tid)
            choose_thread(&c, py->v[i].tid, &py->v[i]);
    for (size_t i = 0; o->native && i < ntids; i++)
        if (!c.slot[i] && (o->all || o->tid == tids[i]))
            choose_thread(&c, tids[i], NULL);
    *ret = c.work;
    return c.n;
}
