#include "agent/torch/profiler/count.h"

#include <stdatomic.h>
#include <string.h>

#include "agent/arch/hidden_return.h"
#include "agent/collectors/native/record.h"
#include "agent/py/object.h"

/* One for the process, as torch's own list of callbacks is. A call may come at any time. */
static struct {
    _Atomic uint64_t events;
    struct pb_record record;
    uint64_t callback; /* number in torch */
    bool installed;
} count;

void pb_torch_count_event(const void *record, void **ret);
void pb_torch_count_event(const void *record, void **ret)
{
    (void)record;
    *ret = NULL;
    atomic_fetch_add_explicit(&count.events, 1, memory_order_relaxed);
}
PB_HIDDEN_RETURN(pb_torch_count_start, pb_torch_count_event)

/* Some versions of torch call it whether it is there or not. */
static void event_ended(const void *record, void *context)
{
    (void)record;
    (void)context;
}

/* An operation of our own is seen. */
static bool passes_test(struct pb_self *self)
{
    const struct pb_py *py = &self->py;
    struct _object *empty = pb_py_attribute(py, "torch", "empty");

    py->Py_DecRef(empty ? py->PyObject_CallFunction(empty, "i", 0) : NULL);
    py->PyErr_Clear();
    py->Py_DecRef(empty);
    return atomic_exchange(&count.events, 0) > 0;
}

bool pb_torch_count_begin(struct pb_self *self)
{
    struct pb_record_callback ours = {.start = pb_torch_count_start, .end = event_ended,
                                    .probability = 1};

    if (count.installed || !pb_record_find(&count.record))
        return count.installed;
    memset(ours.scopes, 1, sizeof ours.scopes);
    count.events = 0;
    count.callback = count.record.add(ours);
    count.installed = true;
    if (!passes_test(self))
        pb_torch_count_end();
    return count.installed;
}

void pb_torch_count_end(void)
{
    if (count.installed)
        count.record.remove(count.callback);
    count.installed = false;
}

uint64_t pb_torch_counted(void)
{
    return atomic_load_explicit(&count.events, memory_order_relaxed);
}
