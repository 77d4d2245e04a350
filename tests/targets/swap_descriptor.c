/* Puts one descriptor into the place of another as soon as that is a file in memory. */
#define _GNU_SOURCE
#include <string.h>
#include <unistd.h>

/* `link` is /proc/self/fd/<number>. Returns when it is done. */
void swap(const char *link, int number, int with)
{
    char name[32];

    for (;;) {
        ssize_t n = readlink(link, name, sizeof name);

        if (n > 7 && memcmp(name, "/memfd:", 7) == 0 && dup3(with, number, 0) >= 0)
            return;
    }
}
