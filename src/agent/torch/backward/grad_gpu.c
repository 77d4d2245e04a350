/* Time on the GPU of the parts of a backward pass, by events on the stream that it runs on. */
#include <dlfcn.h>

#include "agent/arch/symver.h"
#include "agent/torch/backward/grad.h"

#define DEVICE_BITS 0xffffu
#define CURRENT_DEVICE (-1)

static bool find_stream(struct pb_grad *g)
{
    void *library = g->gpu.current ? NULL : dlopen("libc10_cuda.so", RTLD_NOLOAD | RTLD_LAZY);

    if (library)
        g->gpu.current = (struct pb_grad_stream(*)(signed char))(uintptr_t)dlsym(
            library, "_ZN3c104cuda20getCurrentCUDAStreamEa");
    return g->gpu.current != NULL;
}

/* As many as the last pass needed, and some. */
static bool make_events(struct pb_cuda *c, struct pb_grad *g, uint32_t wanted)
{
    int mode = PB_DRIVER_CAPTURE_RELAXED;
    bool good = true;

    c->driver.capture_mode(&mode);
    while (good && g->gpu.nevents < wanted)
        if ((good = c->driver.event_create(&g->gpu.events[g->gpu.nevents], 0) == 0))
            g->gpu.nevents++;
    c->driver.capture_mode(&mode);
    return good;
}

void pb_grad_gpu_begins(struct pb_torch *t, struct pb_grad *g)
{
    uint32_t wanted = g->last_nodes + g->last_nodes / 4 + 16;

    if (g->gpu.nwaiting || !g->last_nodes || wanted > PB_GRAD_EVENTS || !find_stream(g) ||
        !pb_cuda_stream(&t->cuda, &t->self->py, &g->gpu.raw_stream) ||
        !make_events(&t->cuda, g, wanted))
        return;
    g->gpu.on = g->gpu.current(CURRENT_DEVICE);
    g->gpu.timed = true;
}

/* Any thread, no GIL. On another stream, or a device of its own, it is not put. */
void pb_grad_gpu_record(struct pb_grad *g, struct pb_grad_node *node)
{
    struct pb_cuda *c = &pb_torch_state(g->self)->cuda;
    struct pb_grad_stream now = g->gpu.current(CURRENT_DEVICE);

    if (node->event + 1 < g->gpu.nevents && now.number == g->gpu.on.number &&
        ((now.device ^ g->gpu.on.device) & DEVICE_BITS) == 0)
        node->timed = c->driver.event_record(g->gpu.events[node->event], g->gpu.raw_stream) == 0;
}

/* The stream waits for the pass as soon as that returns. */
void pb_grad_gpu_ends(struct pb_torch *t, struct pb_grad *g)
{
    const struct pb_py *py = &t->self->py;
    void *stream;

    g->gpu.last_event = g->gpu.nevents - 1;
    g->gpu.timed = pb_cuda_stream(&t->cuda, py, &stream) && stream == g->gpu.raw_stream &&
               pb_driver_record(&t->cuda.driver, py, g->gpu.events[g->gpu.last_event], stream) == 0;
}
