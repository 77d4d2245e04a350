#include "node/gpu/nvml.h"

#include <dlfcn.h>
#include <string.h>

#define LIBRARY "libnvidia-ml.so.1"
#define MEMORY_V2 (sizeof(struct pb_nvml_memory_v2) | 2u << 24)

/* A symbol's address as a function pointer, which C has no cast for. */
static void load(void *library, const char *symbol, void *ret)
{
    void *address = dlsym(library, symbol);

    memcpy(ret, &address, sizeof address);
}

static const char *error_text(struct pb_nvml *n, int error)
{
    const char *(*text)(int) = NULL;

    load(n->library, "nvmlErrorString", &text);
    return text && text(error) ? text(error) : "unknown error";
}

static void describe(struct pb_nvml *n, unsigned index)
{
    struct pb_nvml_device *d = &n->devices[n->ndevices];

    if (n->handle(index, &d->gpu) != 0)
        return;
    if (!PB_NVML_ASK(n, uuid, d->gpu, d->uuid, sizeof d->uuid))
        d->uuid[0] = '\0';
    if (!PB_NVML_ASK(n, name, d->gpu, d->name, sizeof d->name))
        d->name[0] = '\0';
    d->uuid[sizeof d->uuid - 1] = d->name[sizeof d->name - 1] = '\0';
    n->ndevices++;
}

static int find_devices(struct pb_nvml *n, struct pb_err *err)
{
    unsigned count = 0;
    int rc = n->count(&count);

    if (rc != 0)
        return pb_err_set(err, PB_FAIL, "NVML: %s", error_text(n, rc));
    for (unsigned i = 0; i < count && i < PB_GPUS_MAX; i++)
        describe(n, i);
    if (!n->ndevices)
        return pb_err_set(err, PB_FAIL, count ? "NVML: no GPU that this user may use"
                                              : "NVML: this machine has no GPU");
    return 0;
}

int pb_nvml_open(struct pb_nvml *n, struct pb_err *err)
{
    int rc;

    memset(n, 0, sizeof *n);
    n->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!n->library)
        return pb_err_set(err, PB_FAIL, "no NVIDIA driver here: " LIBRARY " is not found");
#define PB_NVML(name, symbol, args) load(n->library, symbol, &n->name);
#include "node/gpu/nvml.def"
#undef PB_NVML
    if (!n->init || !n->shutdown || !n->count || !n->handle) {
        pb_nvml_close(n);
        return pb_err_set(err, PB_FAIL, LIBRARY " is too old");
    }
    rc = n->init();
    if (rc != 0) {
        pb_err_set(err, PB_FAIL, "NVML: %s", error_text(n, rc));
        pb_nvml_close(n);
        return -1;
    }
    n->ready = true;
    if (find_devices(n, err) < 0) {
        pb_nvml_close(n);
        return -1;
    }
    return 0;
}

void pb_nvml_close(struct pb_nvml *n)
{
    if (n->ready)
        n->shutdown();
    if (n->library)
        dlclose(n->library);
    memset(n, 0, sizeof *n);
}

bool pb_nvml_memory_of(struct pb_nvml *n, struct pb_nvml_gpu *g, uint64_t *ret_total,
                       uint64_t *ret_used)
{
    struct pb_nvml_memory_v2 v2 = {.version = MEMORY_V2};
    struct pb_nvml_memory v1;

    if (PB_NVML_ASK(n, memory_v2, g, &v2)) {
        *ret_total = v2.total;
        *ret_used = v2.used;
        return true;
    }
    if (!PB_NVML_ASK(n, memory, g, &v1))
        return false;
    *ret_total = v1.total;
    *ret_used = v1.used;
    return true;
}

bool pb_nvml_field_number(const struct pb_nvml_field *f, double *ret)
{
    if (f->error != 0)
        return false;
    switch (f->type) {
    case 0:
        *ret = f->value.d;
        return true;
    case 1:
        *ret = f->value.u;
        return true;
    case 2:
    case 3:
        *ret = (double)f->value.ull;
        return true;
    case 4:
        *ret = (double)f->value.ll;
        return true;
    case 5:
        *ret = f->value.i;
        return true;
    case 6:
        *ret = f->value.us;
        return true;
    default:
        return false;
    }
}
