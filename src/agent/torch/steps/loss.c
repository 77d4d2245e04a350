#include "agent/torch/steps/loss.h"

#include <stddef.h>
#include <string.h>

#include "agent/torch/torch.h"

void pb_torch_loss_clear(struct pb_torch_loss *l)
{
    memset(l, 0, offsetof(struct pb_torch_loss, pending));
}

/* Few are pending, and the rest is small. */
void pb_torch_loss_move(struct pb_torch_loss *to, struct pb_torch_loss *from)
{
    memcpy(to, from,
           offsetof(struct pb_torch_loss, pending) + from->npending * sizeof *from->pending);
    pb_torch_loss_clear(from);
}

bool pb_torch_loss_poll(struct pb_torch *t, struct pb_torch_loss *l, bool drop)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < l->npending; i++) {
        struct pb_cuda_value *v = &l->pending[i];

        if (!pb_cuda_arrived(&t->cuda, v, drop))
            l->pending[left++] = *v;
        else if (v->state == PB_CUDA_KNOWN)
            l->sum += v->v;
        else
            l->unknown = true;
    }
    l->npending = left;
    return left == 0;
}

static void note_thread(struct pb_torch *t, struct pb_torch_loss *l)
{
    struct pb_torch_thread *th = pb_torch_thread(t);

    if (th)
        th->passed = true;
    l->mixed |= l->n && l->from != th;
    l->from = th;
}

/* Passes of its own besides those of other threads: more than one thing is trained here. */
void pb_torch_loss_of_step(struct pb_torch *t)
{
    struct pb_torch_loss *l = &t->loss.current;
    struct pb_torch_thread *th = pb_torch_thread(t);

    l->unknown |= l->n && th && th->passed && (l->mixed || l->from != th);
    if (th)
        th->passed = false;
}

void pb_torch_loss_add(struct pb_torch *t, struct _object *tensor)
{
    struct pb_torch_loss *l = &t->loss.current;
    struct pb_cuda_value v = {0};

    if (l->done) {
        if (t->logs.other.pending)
            pb_torch_logs_write_other(t);
        pb_torch_loss_poll(t, l, true);
        pb_torch_loss_clear(l);
    }
    pb_torch_loss_poll(t, l, false);
    if (l->npending < PB_TORCH_PENDING_LOSSES && pb_torch_numel(t, tensor) == 1)
        pb_torch_value_read(t, &v, tensor);
    if (!t->on)
        return;
    note_thread(t, l);
    l->n++;
    if (v.state == PB_CUDA_KNOWN) {
        l->sum += v.v;
    } else if (v.state == PB_CUDA_COMING && l->npending < PB_TORCH_PENDING_LOSSES) {
        l->pending[l->npending++] = v;
    } else {
        l->unknown = true;
        pb_cuda_arrived(&t->cuda, &v, true);
    }
}
