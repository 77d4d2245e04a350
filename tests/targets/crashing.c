/* Ways to crash, for crashing.py: each is called from Python through ctypes. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

__attribute__((noinline)) void crash_segv(void)
{
    *(volatile int *)16 = 1;
}

__attribute__((noinline)) void crash_fpe(void)
{
#if defined(__x86_64__)
    volatile int zero = 0;
    volatile int one = 1;

    one = one / zero;
#else
    raise(SIGFPE);
#endif
}

__attribute__((noinline)) void crash_ill(void)
{
    __builtin_trap();
}

__attribute__((noinline)) void crash_abort(void)
{
    abort();
}

/* Behind the end of a mapped file. */
__attribute__((noinline)) void crash_bus(void)
{
    FILE *file = tmpfile();
    volatile char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);

    p[0] = 1;
}

__attribute__((noinline)) int crash_overflow_at(volatile char *above)
{
    volatile char here[4096];

    here[0] = above ? above[0] : 0;
    return crash_overflow_at(here) + here[0];
}

void crash_overflow(void)
{
    crash_overflow_at(NULL);
}

/* In malloc, with the lock of its arena held: the list of free chunks leads nowhere. */
__attribute__((noinline)) void crash_malloc(void)
{
    void **chunk = malloc(3000), *guard = malloc(3000);

    free(chunk);
    chunk[1] = (void *)0x4141;
    chunk = malloc(3500);
    free(chunk);
    free(guard);
}

static void *in_thread(void *how)
{
    ((void (*)(void))how)();
    return NULL;
}

/* In a thread that Python knows nothing of, while the caller waits for it. */
__attribute__((noinline)) void crash_in_thread(void)
{
    pthread_t thread;

    pthread_create(&thread, NULL, in_thread, (void *)crash_segv);
    pthread_join(thread, NULL);
}

static volatile int survived;

static void survive(int signal)
{
    (void)signal;
    survived = 1;
    mprotect((void *)0x700000000000, 4096, PROT_READ | PROT_WRITE);
}

/* A handler that mends the fault: the program goes on. 1 when it did. */
int crash_mended(void)
{
    struct sigaction mine = {.sa_handler = survive}, before;
    volatile char *p = mmap((void *)0x700000000000, 4096, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

    sigaction(SIGSEGV, &mine, &before);
    p[0] = 1;
    sigaction(SIGSEGV, &before, NULL);
    return survived;
}
