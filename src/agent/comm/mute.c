#include "agent/comm/mute.h"

#include <string.h>

#include "agent/comm/comm.h"

#define EVENTS_ENOUGH 64 /* by then it is known whether torch counts first */
#define INLINE_ROOM 4    /* of the list, before torch allocates memory for it */
#define UNSAID_MAX 16    /* calls in a row that did not say */

/* at::StepCallbacks, with room to spare: what is called for an event of this thread. */
struct steps {
    const void *list;
    uint32_t n, room;
    struct {
        uintptr_t start, end;
    } first;
    uint64_t rest[60];
};

static struct steps steps_of(const struct pb_comm_mute *q, uint8_t scope)
{
    struct steps (*get)(uint8_t) = (struct steps(*)(uint8_t))(uintptr_t)q->get;

    return get(scope);
}

static bool find_functions(struct pb_comm_mute *q)
{
    if (!q->searched) {
        q->get = pb_record_symbol("_ZN2at16getStepCallbacksENS_11RecordScopeE");
        q->enable = (void (*)(bool))(uintptr_t)pb_record_symbol("_ZN2at20enableRecordFunctionEb");
    }
    q->searched = true;
    return q->get && q->enable;
}

/* Is ours the only function that is called for events of this thread? */
static bool is_alone(struct pb_comm_mute *q)
{
    struct steps user = steps_of(q, PB_RECORD_USER), function = steps_of(q, PB_RECORD_FUNCTION);

    if (user.room != INLINE_ROOM || function.room != INLINE_ROOM) {
        q->get = NULL; /* it looks different, or memory was allocated: not again */
        return false;
    }
    return user.n == 1 && function.n == 0 &&
           pb_comm_events_is_ours(user.first.start, user.first.end);
}

/* Has the caller said that it waits? The options of a call have that in newer versions of torch. */
static bool is_waited_for(struct pb_comm *c, size_t kind, struct _object *args,
                          struct _object *kwargs)
{
    const struct pb_py *py = &c->self->py;
    struct _object *options = kwargs ? py->PyDict_GetItemString(kwargs, "opts") : NULL;
    struct _object *later = NULL;
    bool yes;

    if (c->mute.unsaid[kind] >= UNSAID_MAX)
        return false;
    if (!options && py->PyTuple_Size(args) > 1)
        options = py->PyTuple_GetItem(args, py->PyTuple_Size(args) - 1);
    later = options ? py->PyObject_GetAttrString(options, "asyncOp") : NULL;
    yes = later && py->PyObject_IsTrue(later) == 0;
    c->mute.unsaid[kind] = later ? 0 : (uint8_t)(c->mute.unsaid[kind] + 1);
    py->PyErr_Clear();
    py->Py_DecRef(later);
    return yes;
}

bool pb_comm_mute_begin(struct pb_comm *c, size_t kind, struct _object *args,
                         struct _object *kwargs, struct pb_comm_op *op)
{
    struct pb_comm_mute *q = &c->mute;

    if (!c->events.installed || (op->device && c->gpu.coalescing > 0) || !find_functions(q) ||
        (!c->events.counts_first && c->events.count < EVENTS_ENOUGH) ||
        !is_waited_for(c, kind, args, kwargs) || !is_alone(q))
        return false;
    op->matched = true;
    q->enable(false);
    return true;
}

void pb_comm_mute_end(struct pb_comm *c)
{
    c->mute.enable(true);
}
