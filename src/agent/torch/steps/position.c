#include "agent/torch/steps/position.h"

#include "agent/torch/torch.h"

bool pb_torch_position_wanted(const struct pb_torch *t)
{
    return t->steps.number_source != PB_TORCH_BY_OPTIMIZER &&
           t->steps.number_source != PB_TORCH_BY_EXPRESSION && !t->loaders.numbering.off;
}

void pb_torch_position_measure(const struct pb_torch *t, struct pb_torch_batches *b)
{
    const struct pb_torch_loader *f = t->loaders.main;
    struct pb_torch_position *p = &b->position;
    uint32_t ahead;

    *p = (struct pb_torch_position){.batches = -1, .epoch = -1, .length = -1};
    /* Of batches beyond the list it is not known whose they are. */
    if (!f || !f->trains || f->fetched < 1 || f->nsizes == PB_TORCH_BATCHES_AHEAD)
        return;
    p->taken = b->batches[f - t->loaders.list];
    ahead = f->nsizes - p->taken;
    p->batches = f->fetched - ahead;
    p->epoch = pb_torch_loader_knows_epoch(f) ? f->epoch : -1;
    p->length = f->length;
    p->steps_before = f->steps_before;
}

static int64_t steps_of(int64_t batches, uint32_t per_step)
{
    return (batches + per_step - 1) / per_step;
}

/* From here on steps are counted. */
static void give_up(struct pb_torch *t)
{
    t->loaders.numbering.off = true;
    t->steps.number_source = PB_TORCH_BY_INJECTION;
}

static void set_number(struct pb_torch *t, int64_t number, enum pb_torch_source source)
{
    if (number != t->steps.number && t->calls.nended)
        pb_torch_calls_flush(t);
    pb_torch_steps_set(t, number);
    t->steps.number_source = source;
    t->loaders.numbering.last = number;
    t->loaders.numbering.given = true;
}

void pb_torch_position_apply(struct pb_torch *t, const struct pb_torch_position *p, bool whole)
{
    struct pb_torch_numbering *n = &t->loaders.numbering;
    bool by_sampler = p->epoch >= 0 && p->length > 0, changed = false;
    int64_t number;

    if (!pb_torch_position_wanted(t))
        return;
    /* No batch was fetched for this step: perhaps it is the first, or there is no loader. */
    if (p->batches < 0 || !p->taken) {
        if (n->given)
            give_up(t);
        return;
    }
    if (whole && p->taken > n->per_step) {
        changed = n->per_step != 0;
        n->per_step = p->taken;
    }
    if (!n->per_step || p->batches < p->taken)
        return;
    number = steps_of(p->batches, n->per_step) - 1 +
             (by_sampler ? p->epoch * steps_of(p->length, n->per_step) : p->steps_before);
    if (n->given && number <= n->last && !changed) {
        give_up(t);
        return;
    }
    set_number(t, number, by_sampler ? PB_TORCH_BY_SAMPLER : PB_TORCH_BY_LOADER);
}
