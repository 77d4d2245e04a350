/*
 * A program to look at, built with frame pointers by the test that runs it.
 * Sleeps in a function of the shape that its argument names (called through a
 * pointer when a second one is given), on top of what other calls have left
 * on the stack: return addresses and frame pointers that are no longer true.
 */
#include <alloca.h>
#include <string.h>
#include <unistd.h>

#define KEEP __attribute__((noinline))
#define NO_TAIL_CALL __asm__ volatile("" ::: "memory")

static volatile size_t grow_by = 900;
static void *volatile sink;

static KEEP void plain(void)
{
    pause();
    NO_TAIL_CALL;
}

static KEEP void large(void)
{
    char room[5000];

    sink = room;
    pause();
    NO_TAIL_CALL;
}

static KEEP void grown(void)
{
    sink = alloca(grow_by);
    pause();
    NO_TAIL_CALL;
}

static KEEP void aligned(void)
{
    char room[900] __attribute__((aligned(128)));

    sink = room;
    pause();
    NO_TAIL_CALL;
}

static KEEP void jumped(void)
{
    sink = NULL;
    grown();
}

static KEEP void litter(int n)
{
    if (n) {
        litter(n - 1);
        getppid();
    }
    NO_TAIL_CALL;
}

static KEEP void by_name(size_t i)
{
    litter(40);
    if (i == 0)
        plain();
    else if (i == 1)
        large();
    else if (i == 2)
        grown();
    else if (i == 3)
        aligned();
    else
        jumped();
    NO_TAIL_CALL;
}

static KEEP void by_pointer(size_t i)
{
    static void (*const volatile shapes[])(void) = {plain, large, grown, aligned, jumped};

    litter(40);
    shapes[i]();
    NO_TAIL_CALL;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"plain", "large", "grown", "aligned", "jumped"};

    if (write(1, "!", 1) != 1) /* from here on the only system call that sleeps is the last */
        return 1;
    for (size_t i = 0; argc > 1 && i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(argv[1], names[i]) != 0)
            continue;
        if (argc == 2)
            by_name(i);
        else
            by_pointer(i);
    }
    return 1;
}
