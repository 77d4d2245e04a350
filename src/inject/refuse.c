/* What can be told about a process before anything is done to it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/process/proc.h"
#include "host/python/detect.h"
#include "inject/arch.h"
#include "inject/internal.h"
#include "cpython/layout.h"

/* Room for the arena, a thread and the library. */
#define ROOM_BYTES (4u << 20)
#define SECCOMP_FILTER 2
#define TRACER_NAPS 50
#define TRACER_NAP_US 2000

/* Another look at the process (a backtrace) holds it for an instant: that is waited for. */
static int await_tracer(const struct pb_injection *in, struct pb_proc_status *st,
                        struct pb_err *err)
{
    for (int i = 0; i < TRACER_NAPS; i++) {
        if (pb_proc_status(st, in->pid, err) < 0)
            return -1;
        if (!st->tracer)
            return 0;
        usleep(TRACER_NAP_US);
    }
    return pb_err_set(err, PB_FAIL, "it is traced by process %d (a debugger?)", (int)st->tracer);
}

static int refuse_status(const struct pb_injection *in, struct pb_err *err)
{
    struct pb_proc_status status;
    struct pb_proc_stat st;

    if (await_tracer(in, &status, err) < 0 || pb_proc_stat(&st, in->pid, 0, err) < 0)
        return -1;
    if (st.state == 'T')
        return pb_err_set(err, PB_FAIL, "it is stopped; continue it first: kill -CONT %d",
                          (int)in->pid);
    if (status.seccomp == SECCOMP_FILTER && !in->o->force)
        return pb_err_set(err, PB_FAIL,
                          "a seccomp filter watches its system calls and may kill it; --force "
                          "to try all the same");
    return 0;
}

/* Soft limit on address space in bytes; UINT64_MAX for none. */
static uint64_t address_limit(const char *limits)
{
    static const char name[] = "Max address space";
    const char *line = limits ? strstr(limits, name) : NULL;
    char *end;
    uint64_t value;

    if (!line)
        return UINT64_MAX;
    value = strtoull(line + strlen(name), &end, 10);
    return end == line + strlen(name) || value == 0 ? UINT64_MAX : value;
}

static int refuse_memory(pid_t pid, struct pb_err *err)
{
    struct pb_arena a = PB_ARENA_INIT;
    size_t len;
    char *limits = pb_proc_read(pid, "limits", &a, &len);
    char *statm = pb_proc_read(pid, "statm", &a, &len);
    uint64_t limit = address_limit(limits);
    uint64_t used = statm ? strtoull(statm, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;

    pb_arena_finish(&a);
    if (limit != UINT64_MAX && used + ROOM_BYTES > limit)
        return pb_err_set(err, PB_FAIL,
                          "no memory left for a probe: its limit on address space (ulimit -v) is "
                          "%llu MB, of which it uses %llu",
                          (unsigned long long)(limit >> 20), (unsigned long long)(used >> 20));
    return 0;
}

/* A version that nobody has tried the agent in. */
static int refuse_version(const struct pb_injection *in, const struct pb_py_found *found,
                          struct pb_err *err)
{
    char known[32];

    if (!found->number.major)
        return 0; /* a file that cannot be read; the agent itself looks again */
    switch (pb_py_support(found->number.major, found->number.minor)) {
    case PB_PY_AGENT:
        return 0;
    case PB_PY_STACKS_ONLY:
        return pb_err_set(err, PB_FAIL,
                          "the probe does not run in Python %s; backtrace and the other commands "
                          "that read from outside do without it",
                          found->version);
    case PB_PY_UNKNOWN:
        break;
    }
    if (in->o->force)
        return 0;
    return pb_err_set(err, PB_FAIL,
                      "Python %s is not known to this version of probing, only %s; --force to try "
                      "all the same",
                      found->version, pb_py_supported(known, sizeof known));
}

static int refuse_other_programs(struct pb_injection *in, struct pb_err *err)
{
    struct pb_py_detector d;
    struct pb_py_found found;

    in->python = "";
    if (in->hook && in->hook->any_program)
        return 0;
    pb_py_detector_init(&d, &in->arena);
    if (!pb_py_detect(&d, in->pid, &found))
        return pb_err_set(err, PB_FAIL, "not a Python process");
    if (found.module)
        in->python = found.module;
    return refuse_version(in, &found, err);
}

/* Its allocator has a place for each thread, and crashes in one that it has not seen begin. */
static int refuse_thread_sanitizer(pid_t pid, struct pb_err *err)
{
    struct pb_arena a = PB_ARENA_INIT;
    size_t len;
    const char *maps = pb_proc_read(pid, "maps", &a, &len);
    bool found = maps && (strstr(maps, "/libtsan.so") || strstr(maps, "/libclang_rt.tsan"));

    pb_arena_finish(&a);
    return found ? pb_err_set(err, PB_FAIL,
                              "it runs under ThreadSanitizer, which does not survive a thread that "
                              "it has not made; start it with PROBING=1 instead")
                 : 0;
}

int pb_refuse(struct pb_injection *in, struct pb_err *err)
{
    if (refuse_status(in, err) < 0 || refuse_other_programs(in, err) < 0 ||
        refuse_memory(in->pid, err) < 0 || refuse_thread_sanitizer(in->pid, err) < 0)
        return -1;
    return pb_arch_refuse(in->pid, err);
}
