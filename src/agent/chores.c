#include "agent/chores.h"

#include <string.h>
#include <unistd.h>

#include "agent/collect/collect.h"
#include "agent/glue.h"
#include "agent/jobs.h"
#include "agent/py/gil.h"

#define STACK (1 << 20)
#define TURN_US 1000

static void forget_clients(struct pb_self *self)
{
    uint32_t left[PB_CLIENTS];
    int n;

    pthread_mutex_lock(&self->lock);
    n = self->left_count;
    memcpy(left, self->left, sizeof left);
    self->left_count = 0;
    pthread_mutex_unlock(&self->lock);
    for (int i = 0; i < n; i++)
        pb_glue_forget(self, left[i]);
}

static void do_chores(struct pb_self *self, unsigned todo)
{
    if (todo & PB_CHORE_THROW)
        pb_jobs_throw(self);
    if (todo & PB_CHORE_FORGET)
        forget_clients(self);
    if (todo & PB_CHORE_CLEANUP) {
        pb_collect_leave(self);
        pb_glue_drop(self);
    }
    if (todo & PB_CHORE_HOOKS)
        pb_glue_set_hooks(self);
    if (todo & PB_CHORE_COLLECT)
        pb_collect_inside(self, true);
}

/* On the main thread of a Python that had no GIL for us. */
static int clean_up(void *arg)
{
    struct pb_self *self = pb_self();

    (void)arg;
    if (!self->finalizing)
        do_chores(self, PB_CHORE_CLEANUP);
    return 0;
}

static void *run(void *arg)
{
    struct pb_self *self = arg;
    int token;

    for (;;) {
        if (pb_gil_enter(self, 0, &token)) {
            do_chores(self, atomic_exchange(&self->chores, 0));
            pb_gil_leave(self, token);
            /* What is left waits until the program has had its turn. */
            if (self->chores) {
                usleep(TURN_US);
                continue;
            }
        } else if (atomic_exchange(&self->chores, 0) & PB_CHORE_CLEANUP && !self->finalizing) {
            pb_gil_add_pending(self, clean_up);
        }
        self->helper = false;
        /* Something may have come in between the last look and this line. */
        if (!self->chores || atomic_exchange(&self->helper, true))
            return NULL;
    }
}

void pb_chores_add(struct pb_self *self, enum pb_chore chore)
{
    atomic_fetch_or(&self->chores, (unsigned)chore);
    if (!atomic_exchange(&self->helper, true) && pb_self_thread(run, self, STACK) < 0)
        self->helper = false;
}
