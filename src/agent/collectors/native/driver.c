#include "agent/collectors/native/driver.h"

#include <dlfcn.h>
#include <string.h>

#include "agent/arch/symver.h"

bool pb_driver_find(struct pb_driver *d)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    const struct {
        const char *name;
        void *to;
        bool optional;
    } list[] = {
        {"cuEventCreate", &d->event_create, false},
        {"cuEventRecord", &d->event_record, false},
        {"cuEventQuery", &d->event_query, false},
        {"cuEventElapsedTime", &d->event_elapsed, false},
        {"cuCtxGetCurrent", &d->context_current, false},
        {"cuStreamIsCapturing", &d->capturing, false},
        {"cuThreadExchangeStreamCaptureMode", &d->capture_mode, false},
        {"cuMemAllocHost_v2", &d->host_alloc, true},
        {"cuMemcpyDtoHAsync_v2", &d->copy, true},
    };

    for (size_t i = 0; library && i < sizeof list / sizeof *list; i++) {
        void *function = dlsym(library, list[i].name);

        if (!function && !list[i].optional)
            return false;
        memcpy(list[i].to, &function, sizeof function);
    }
    return library != NULL;
}

int pb_driver_record(const struct pb_driver *d, const struct pb_py *py, void *event, void *stream)
{
    void *state = py->PyEval_SaveThread();
    int rc = d->event_record(event, stream);

    py->PyEval_RestoreThread(state);
    return rc;
}
