#include "agent/collect/torch/count.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "agent/arch/hidden_return.h"
#include "agent/arch/symver.h"
#include "agent/collect/comm/comm.h"
#include "agent/collect/torch/torch.h"

/* One for the process, as torch's own list of callbacks is. A call of ours may come at any time. */
static struct {
    _Atomic uint64_t events;
    uint64_t (*add)(struct pb_comm_callback);
    void (*remove)(uint64_t);
    uint64_t callback;
    bool looked_for, in;
} count;

void pb_torch_count_event(const void *record, void **ret);
void pb_torch_count_event(const void *record, void **ret)
{
    (void)record;
    *ret = NULL;
    atomic_fetch_add_explicit(&count.events, 1, memory_order_relaxed);
}
PB_HIDDEN_RETURN(pb_torch_count_start, pb_torch_count_event)

/* Torch calls it whether it is there or not in some versions. */
static void event_ended(const void *record, void *context)
{
    (void)record;
    (void)context;
}

static bool find_functions(void)
{
    void *library;

    if (count.looked_for)
        return count.add && count.remove;
    count.looked_for = true;
    library = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
    if (!library)
        return false;
    count.add = (uint64_t(*)(struct pb_comm_callback))(uintptr_t)dlsym(
        library, "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE");
    count.remove = (void (*)(uint64_t))(uintptr_t)dlsym(library, "_ZN2at14removeCallbackEm");
    return count.add && count.remove;
}

/* An operation of our own is seen. */
static bool passes_test(struct pb_self *self)
{
    const struct pb_py *py = &self->py;
    struct _object *empty = pb_torch_attribute(py, "torch", "empty");

    py->Py_DecRef(empty ? py->PyObject_CallFunction(empty, "i", 0) : NULL);
    py->PyErr_Clear();
    py->Py_DecRef(empty);
    return atomic_exchange(&count.events, 0) > 0;
}

bool pb_torch_count_begin(struct pb_self *self)
{
    struct pb_comm_callback ours = {.start = pb_torch_count_start, .end = event_ended,
                                    .probability = 1};

    if (count.in || !find_functions())
        return count.in;
    memset(ours.scopes, 1, sizeof ours.scopes);
    count.events = 0;
    count.callback = count.add(ours);
    count.in = true;
    if (!passes_test(self))
        pb_torch_count_end();
    return count.in;
}

void pb_torch_count_end(void)
{
    if (count.in)
        count.remove(count.callback);
    count.in = false;
}

uint64_t pb_torch_counted(void)
{
    return atomic_load_explicit(&count.events, memory_order_relaxed);
}
