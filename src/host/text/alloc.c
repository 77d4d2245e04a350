#include "host/text/alloc.h"

#include <stdlib.h>
#include <unistd.h>

void *pb_alloc_resize(void *old, size_t size)
{
    static const char text[] = "probing: out of memory\n";
    void *p = realloc(old, size ? size : 1);

    if (p)
        return p;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(1);
    _exit(1);
}
