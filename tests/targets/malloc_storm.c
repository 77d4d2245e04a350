/*
 * A library whose storm() allocates and frees without end, small blocks and
 * large, and ends the process when a block does not hold what was put in it.
 */
#include <stdlib.h>
#include <string.h>

#define SLOTS 512

void storm(unsigned seed);

void storm(unsigned seed)
{
    unsigned char *block[SLOTS] = {0};
    size_t size[SLOTS] = {0};

    for (;;) {
        unsigned i, work;

        seed = seed * 1103515245 + 12345;
        i = seed >> 16 & (SLOTS - 1);
        if (block[i] && (block[i][0] != (unsigned char)i || block[i][size[i] - 1] != 0xa5))
            abort();
        free(block[i]);
        size[i] = (seed >> 8 & 1023) == 0 ? 300000 : (seed >> 4 & 2047) + 2;
        block[i] = malloc(size[i]);
        block[i][0] = (unsigned char)i;
        block[i][size[i] - 1] = 0xa5;
        for (work = 0; work < 200; work++)
            __asm__ volatile("" ::: "memory");
    }
}
