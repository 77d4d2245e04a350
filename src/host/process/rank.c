#include "host/process/rank.h"

#include <stdlib.h>

#include "host/process/proc.h"

/* A number that a launcher put into the environment; -1 when it is not there. */
static long env_number(const char *block, size_t len, const char *name)
{
    const char *v = pb_proc_getenv(block, len, name);
    char *end;
    long n;

    if (!v || !*v)
        return -1;
    n = strtol(v, &end, 10);
    return *end || n < 0 ? -1 : n;
}

void pb_rank_read(pid_t pid, struct pb_arena *a, long *ret_rank, long *ret_world)
{
    static const char *const names[][2] = {
        {"RANK", "WORLD_SIZE"},
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
        {"SLURM_PROCID", "SLURM_NTASKS"},
        {"PMI_RANK", "PMI_SIZE"},
    };
    size_t len = 0;
    char *block = pb_proc_read(pid, "environ", a, &len);

    *ret_rank = *ret_world = -1;
    for (size_t i = 0; block && *ret_rank < 0 && i < sizeof names / sizeof *names; i++) {
        *ret_rank = env_number(block, len, names[i][0]);
        *ret_world = *ret_rank < 0 ? -1 : env_number(block, len, names[i][1]);
    }
}
