#include "cli/crash/crash_cause.h"

#include <signal.h>
#include <string.h>

/* Functions that end a process, by a part of their name, the most telling first. */
static const struct {
    const char *part, *why;
} enders[] = {
    {"ProcessGroupNCCL", "NCCL's watchdog gave up"},
    {"ncclCommAbort", "NCCL was told to stop"},
    {"c10_cuda_check", "a CUDA call failed"},
    {"Py_FatalError", "the interpreter found a fatal error"},
    {"fatal_error", "the interpreter found a fatal error"},
    {"__assert_fail", "an assertion of C code failed"},
    {"__stack_chk_fail", "C code wrote past the end of a buffer on its stack"},
    {"__fortify_fail", "C code wrote past the end of a buffer"},
    {"malloc_printerr", "the C library found its heap damaged"},
    {"std::terminate", "a C++ exception that nobody caught"},
    {"__cxa_throw", "a C++ exception that nobody caught"},
    {"os_abort", "os.abort()"},
};

static const char *why_abort(const struct pb_thread *t)
{
    for (size_t k = 0; t && k < sizeof enders / sizeof *enders; k++)
        for (size_t i = 0; i < t->nframes; i++)
            if (t->frames[i].native && t->frames[i].func &&
                strstr(t->frames[i].func, enders[k].part))
                return enders[k].why;
    return "abort()";
}

static const char *why_bus(int code)
{
    switch (code) {
    case BUS_ADRALN: return "an address that is not aligned";
    case BUS_ADRERR: return "beyond the end of a mapped file, or no room left for its pages";
    case BUS_MCEERR_AR:
    case BUS_MCEERR_AO: return "the machine reports an error of its memory";
    }
    return "memory that cannot be reached";
}

static const char *why_arithmetic(int code)
{
    switch (code) {
    case FPE_INTDIV: return "an integer divided by zero";
    case FPE_INTOVF: return "an integer overflowed";
    case FPE_FLTDIV: return "a number divided by zero";
    case FPE_FLTOVF: return "a number overflowed";
    case FPE_FLTUND: return "a number underflowed";
    case FPE_FLTRES: return "a number was not exact";
    case FPE_FLTINV: return "a calculation that has no result";
    }
    return "arithmetic that has no result";
}

static const char *why_segv(const struct pb_crash_record *r, bool overflown, struct pb_arena *a)
{
    unsigned long long at = r->address;

    if (overflown)
        return "the stack overflowed";
    if (r->code == SEGV_MAPERR)
        return pb_arena_printf(a, "nothing is mapped at 0x%llx", at);
    if (r->code == SEGV_ACCERR)
        return pb_arena_printf(a, "the memory at 0x%llx may not be used like that", at);
    return "an address that cannot be";
}

const char *pb_crash_why(const struct pb_crash_record *r, const struct pb_thread *thread,
                         bool overflown, struct pb_arena *a)
{
    bool own = r->sender_pid == r->pid;

    if (r->code <= 0 && !own)
        return pb_arena_printf(a, "sent by process %d of user %d", (int)r->sender_pid,
                               (int)r->sender_uid);
    if (r->signal == SIGABRT)
        return why_abort(thread);
    if (r->code <= 0)
        return "the process sent it to itself";
    switch (r->signal) {
    case SIGSEGV: return why_segv(r, overflown, a);
    case SIGBUS: return why_bus(r->code);
    case SIGFPE: return why_arithmetic(r->code);
    case SIGILL: return "an instruction that this processor does not have";
    }
    return pb_arena_printf(a, "code %d", (int)r->code);
}
