#include "node/serve/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "host/process/proc.h"

#define BESIDE_BYTES ((rlim_t)2 << 30)

/* Private memory as the limit counts it: the 6th number of statm, in pages. */
static rlim_t data_bytes(void)
{
    struct pb_arena a = PB_ARENA_INIT;
    size_t len = 0;
    char *p = pb_proc_read(getpid(), "statm", &a, &len);
    rlim_t pages = 0;

    for (int i = 1; p && i < 6; i++)
        p = strchr(p + (i > 1), ' ');
    if (p)
        pages = strtoull(p, NULL, 10);
    pb_arena_finish(&a);
    return pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

void pb_serve_raise_files(void)
{
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
}

void pb_serve_limit_memory(int64_t engine_mb)
{
    rlim_t limit = ((rlim_t)engine_mb << 20) + BESIDE_BYTES;
    struct rlimit r;

    if (data_bytes() < limit && getrlimit(RLIMIT_DATA, &r) == 0 &&
        (r.rlim_cur == RLIM_INFINITY || r.rlim_cur > limit)) {
        r.rlim_cur = limit;
        setrlimit(RLIMIT_DATA, &r);
    }
}
