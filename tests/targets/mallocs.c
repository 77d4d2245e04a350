/* Memory of a C library: blocks by each of malloc's functions, held and released when told to. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define MOST 8192

static void *blocks[MOST];
static int held;

static void *get(int how, size_t size)
{
    void *block = NULL;

    switch (how) {
    case 0:
        return malloc(size);
    case 1:
        return calloc(1, size);
    case 2:
        return realloc(malloc(size / 2), size);
    case 3:
        return aligned_alloc(64, size);
    default:
        return posix_memalign(&block, 64, size) == 0 ? block : NULL;
    }
}

void hold(int count, size_t size)
{
    while (count-- > 0 && held < MOST) {
        blocks[held] = get(held % 5, size);
        memset(blocks[held++], 1, size);
    }
}

void release(void)
{
    while (held > 0)
        free(blocks[--held]);
}

/* Any number of threads at a time. */
void churn(int rounds)
{
    void *mine[64] = {0};

    for (int i = 0; i < rounds; i++) {
        free(mine[i % 64]);
        mine[i % 64] = get(i % 5, 1 + i * 37 % 5000);
    }
    for (int i = 0; i < 64; i++)
        free(mine[i]);
}

/* Whether calls of malloc from here lead to where everybody's do. */
int untouched(void)
{
    void *(*volatile here)(size_t) = malloc;

    return (void *)here == dlsym(RTLD_DEFAULT, "malloc");
}
