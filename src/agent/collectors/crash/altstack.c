/* A stack for signal handlers, which one that has overflown needs. */
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/collectors/crash/crash.h"
#include "base/pages.h"

/*
 * Room for the registers of the largest processors, for our handler, and for earlier handlers,
 * which would have run on the thread's own stack. Pages that nobody touches cost nothing.
 */
#define STACK (128 << 10)
#define GUARD 4096

void *pb_crash_altstack_set(void)
{
    stack_t old, new = {.ss_size = STACK - GUARD};
    char *p;

    if (sigaltstack(NULL, &old) < 0 || !(old.ss_flags & SS_DISABLE))
        return NULL;
    p = pb_pages_get(STACK);
    if (!p)
        return NULL;
    mprotect(p, GUARD, PROT_NONE);
    new.ss_sp = p + GUARD;
    if (sigaltstack(&new, NULL) == 0)
        return p;
    pb_pages_free(p, STACK);
    return NULL;
}

void pb_crash_altstack_drop(void *stack)
{
    stack_t old, none = {.ss_flags = SS_DISABLE};

    if (!stack || sigaltstack(NULL, &old) < 0)
        return;
    /* Somebody else may have put another one in its place. */
    if (old.ss_sp == (char *)stack + GUARD && sigaltstack(&none, NULL) < 0)
        return;
    pb_pages_free(stack, STACK);
}
