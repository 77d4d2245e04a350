/* Parts of a step: each one's own time, whatever is inside of it. */
#include "agent/collect/comm/comm.h"
#include "agent/collect/torch/torch.h"

void pb_torch_part_begins(struct pb_torch *t, struct pb_torch_part *p, uint64_t now)
{
    p->began_ns = now;
    p->counted_ns = t->counted_ns;
    p->comm_ns = pb_comm_so_far_ns(t->self, now);
    p->inside_ns = t->sums.comm_ns;
}

static uint64_t less(uint64_t from, uint64_t what)
{
    return from > what ? from - what : 0;
}

uint64_t pb_torch_part_ends(struct pb_torch *t, const struct pb_torch_part *p, uint64_t now)
{
    uint64_t comm_ns = pb_comm_so_far_ns(t->self, now), own;

    if (t->step_end_ns <= p->began_ns) {
        own = less(now - p->began_ns, t->counted_ns - p->counted_ns);
        t->sums.comm_ns = p->inside_ns + less(comm_ns, p->comm_ns);
    } else {
        /* A step has ended inside of it: what was before that is not this step's. */
        own = less(less(now, t->step_end_ns), t->counted_ns - t->step_counted_ns);
        t->sums.comm_ns = comm_ns;
    }
    t->counted_ns += own;
    return own;
}

bool pb_torch_makes_steps(const struct pb_torch *t)
{
    return !t->has_step_thread || pthread_equal(t->step_thread, pthread_self());
}

void pb_torch_steps_are_here(struct pb_torch *t)
{
    t->step_thread = pthread_self();
    t->has_step_thread = true;
}
