#include "host/os/signals.h"

#include <stddef.h>

const char *pb_signal_name(int signal, struct pb_arena *a)
{
    static const struct {
        int number;
        const char *name;
    } list[] = {
#define X(name) {name, #name}
        X(SIGHUP),  X(SIGINT),  X(SIGQUIT), X(SIGILL),  X(SIGTRAP), X(SIGABRT), X(SIGBUS),
        X(SIGFPE),  X(SIGKILL), X(SIGUSR1), X(SIGSEGV), X(SIGUSR2), X(SIGPIPE), X(SIGALRM),
        X(SIGTERM), X(SIGXCPU), X(SIGXFSZ), X(SIGSYS),
#undef X
    };

    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i].number == signal)
            return list[i].name;
    return pb_arena_printf(a, "signal %d", signal);
}

void pb_signals_block(sigset_t *ret_before)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t set;

    sigfillset(&set);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&set, faults[i]);
    pthread_sigmask(SIG_SETMASK, &set, ret_before);
}

void pb_signals_restore(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}
