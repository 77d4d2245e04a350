#include "agent/core/gil_tasks.h"

#include <unistd.h>

#include "agent/core/gil.h"

#define STACK (1 << 20)
#define TURN_US 1000

/* On the main thread of a Python that had no GIL for us. */
static int clean_up(void *arg)
{
    struct pb_self *self = pb_self();

    (void)arg;
    if (!self->finalizing)
        self->run_gil_tasks(self, PB_GIL_TASK_CLEANUP);
    return 0;
}

static void *run(void *arg)
{
    struct pb_self *self = arg;
    void *state;

    for (;;) {
        if (pb_gil_enter(self, 0, &state)) {
            self->run_gil_tasks(self, atomic_exchange(&self->gil_tasks, 0));
            pb_gil_leave(self, state);
            /* What is left waits until the program has had its turn. */
            if (self->gil_tasks) {
                usleep(TURN_US);
                continue;
            }
        } else if (atomic_exchange(&self->gil_tasks, 0) & PB_GIL_TASK_CLEANUP &&
                   !self->finalizing) {
            pb_gil_add_pending(self, clean_up);
        }
        self->helper = false;
        /* Something may have come in between the last look and this line. */
        if (!self->gil_tasks || atomic_exchange(&self->helper, true))
            return NULL;
    }
}

void pb_gil_task_add(struct pb_self *self, enum pb_gil_task task)
{
    atomic_fetch_or(&self->gil_tasks, (unsigned)task);
    if (!atomic_exchange(&self->helper, true) && pb_self_thread(run, self, STACK) < 0)
        self->helper = false;
}
