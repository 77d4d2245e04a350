#include "agent/py/api.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/arch/symver.h"
#include "base/ownmem.h"

/* Calls visit for each line of a file in /proc; a line over 4 KB is cut. */
static void *each_line(const char *path, void *(*visit)(char *line))
{
    char buf[4096];
    size_t have = 0;
    void *found = NULL;
    ssize_t n;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    while (fd >= 0 && !found && (n = read(fd, buf + have, sizeof buf - 1 - have)) > 0) {
        char *line = buf, *end;

        have += (size_t)n;
        buf[have] = '\0';
        while (!found && (end = strchr(line, '\n'))) {
            *end = '\0';
            found = visit(line);
            line = end + 1;
        }
        have -= (size_t)(line - buf);
        memmove(buf, line, have);
        if (have == sizeof buf - 1)
            have = 0;
    }
    if (fd >= 0)
        close(fd);
    return found;
}

/* An interpreter loaded by dlopen without RTLD_GLOBAL, as embedders and plugins do. */
static void *visit_mapping(char *line)
{
    char *path = strchr(line, '/');
    char *name = path ? strrchr(path, '/') : NULL;
    void *handle;

    if (!name || strncmp(name, "/libpython3", 11) != 0 || strcmp(name, "/libpython3.so") == 0)
        return NULL;
    handle = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
    return handle && dlsym(handle, "Py_IsInitialized") ? handle : NULL;
}

static void read_version(struct pb_py *py)
{
    const char *v = py->Py_GetVersion();
    size_t n = strcspn(v, " ");
    int *part = &py->major;

    if (n >= sizeof py->version)
        n = sizeof py->version - 1;
    memcpy(py->version, v, n);
    py->major = py->minor = 0;
    for (size_t i = 0; i < n; i++) {
        if (v[i] >= '0' && v[i] <= '9')
            *part = *part * 10 + (v[i] - '0');
        else if (v[i] == '.' && part == &py->major)
            part = &py->minor;
        else
            break;
    }
    py->free_threaded = strstr(v, "free-threading") != NULL;
}

int pb_py_find(struct pb_py *py)
{
    void *from = RTLD_DEFAULT;
    bool all = true;

    if (!dlsym(from, "Py_IsInitialized"))
        from = each_line("/proc/self/maps", visit_mapping);
    if (!from && !dlsym(RTLD_DEFAULT, "Py_IsInitialized"))
        return -ENOENT;
#define PB_PY(type, name, args) all &= (py->name = (type(*) args)dlsym(from, #name)) != NULL;
#define PB_PY_MAYBE(type, name, args) py->name = (type(*) args)dlsym(from, #name);
#include "agent/py/api.def"
#undef PB_PY
#undef PB_PY_MAYBE
    py->PyExc_AttributeError = dlsym(from, "PyExc_AttributeError");
    py->PyExc_KeyboardInterrupt = dlsym(from, "PyExc_KeyboardInterrupt");
    py->PyExc_RuntimeError = dlsym(from, "PyExc_RuntimeError");
    py->PyExc_TypeError = dlsym(from, "PyExc_TypeError");
    py->PyExc_ValueError = dlsym(from, "PyExc_ValueError");
    py->none = dlsym(from, "_Py_NoneStruct");
    py->runtime = dlsym(from, "_PyRuntime");
    if (!all || !py->PyExc_AttributeError || !py->PyExc_KeyboardInterrupt ||
        !py->PyExc_RuntimeError || !py->PyExc_TypeError || !py->PyExc_ValueError || !py->none)
        return -ENOENT;
    read_version(py);
    py->api = pb_py_api_of(py->major, py->minor);
    if (pb_py_own_layout(&py->layout, py, NULL) < 0)
        py->layout = (struct pb_py_layout){0};
    return py->major == 3 && pb_py_support(3, py->minor) != PB_PY_STACKS_ONLY ? 0 : -ENOENT;
}

/* 3 in "3.7.3"; -1 when it is not said. */
static int micro_of(const char *version)
{
    const char *dot = strchr(version, '.');
    int v = 0;

    dot = dot ? strchr(dot + 1, '.') : NULL;
    if (!dot || dot[1] < '0' || dot[1] > '9')
        return -1;
    for (dot++; *dot >= '0' && *dot <= '9'; dot++)
        v = v * 10 + (*dot - '0');
    return v;
}

int pb_py_own_layout(struct pb_py_layout *ret, const struct pb_py *py, struct pb_err *err)
{
    uint8_t told[PB_DEBUG_OFFSETS_MAX];

    if (pb_py_layout_find(ret, py->major, py->minor, micro_of(py->version)))
        return 0;
    if (!py->runtime || !pb_ownmem_read(told, (uintptr_t)py->runtime, sizeof told))
        return pb_err_set(err, PB_FAIL, "the layout of Python %s is not known", py->version);
    return pb_py_layout_from_offsets(ret, told, sizeof told, err);
}

/* A thread that Python still lists may be long gone. */
pid_t pb_py_tid(unsigned long ident)
{
    enum { WORDS = 512 };
    pid_t mine = (pid_t)syscall(SYS_gettid), tid;

    /* The C library keeps the number somewhere in its thread: where ours is, others' is. */
    for (unsigned long at = 0; at < WORDS * sizeof tid; at += sizeof tid) {
        if (!pb_ownmem_read(&tid, (uintptr_t)pthread_self() + at, sizeof tid))
            return 0;
        if (tid == mine)
            return pb_ownmem_read(&tid, ident + at, sizeof tid) ? tid : 0;
    }
    return 0;
}
