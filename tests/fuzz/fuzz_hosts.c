/* Any bytes as a list of hosts, a set of ranks, and the environment of a process. */
#include <stdint.h>
#include <string.h>

#include "cluster/jobenv.h"
#include "cluster/ranges.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_hosts h = {0};
    struct pb_ranges r = {0};
    struct pb_jobenv e;
    const char *text;

    if (size > 300)
        return 0; /* few bytes name many hosts */
    text = pb_arena_strndup(&a, (const char *)data, size);
    pb_hosts_expand(&h, text, &a, NULL);
    for (size_t i = 0; i < h.n; i++)
        if (!*h.v[i] || strlen(h.v[i]) >= PB_HOST_NAME_MAX || strpbrk(h.v[i], " ;$'\"`\n"))
            __builtin_trap();
    if (pb_ranges_parse(&r, text, NULL) == 0 && !pb_ranges_count(&r))
        __builtin_trap();
    pb_ranges_finish(&r);
    pb_jobenv_parse(text, size, &a, &e); /* a NUL behind it, as pb_proc_read makes it */
    h = (struct pb_hosts){0};
    e.hosts_file = NULL; /* no files of this machine */
    pb_jobenv_hosts(&e, &h, &a);
    pb_arena_finish(&a);
    return 0;
}

size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap)
{
    static const struct {
        const char *text;
        size_t len;
    } seeds[] = {
        {"gpu[01-03,07]-ib,login1,r[1-2]n[3-4]", 36},
        {"0-511,513-1023,7", 16},
        {"RANK=1\0WORLD_SIZE=8\0MASTER_ADDR=a\0MASTER_PORT=1\0SLURM_JOB_NODELIST=g[1-3]\0", 74},
        {"RANK=1\0WORLD_SIZE=8\0HOSTNAME=t-1\0JOB_COMPLETION_INDEX=1\0MASTER_ADDR=t-0.s\0", 74},
    };
    size_t len;

    if (index < 0 || index >= (int)(sizeof seeds / sizeof *seeds))
        return 0;
    len = seeds[index].len < cap ? seeds[index].len : cap;
    memcpy(buf, seeds[index].text, len);
    return len;
}
