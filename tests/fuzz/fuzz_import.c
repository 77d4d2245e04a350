/* Any bytes as a file of stacks that somebody hands on: flamegraph --diff. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "recording/import.h"

size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap)
{
    static const char *const seeds[] = {
        "<module> (train.py:61);step (train.py:12) 2001865\nidle 17\n",
        "{\"shared\":{\"frames\":[{\"name\":\"f\",\"file\":\"a.py\",\"line\":3}]},\"profiles\":"
        "[{\"type\":\"sampled\",\"name\":\"MainThread (1)\",\"unit\":\"milliseconds\","
        "\"samples\":[[0],[0]],\"weights\":[1,2.5]}],\"name\":\"x\"}",
    };
    size_t n = sizeof seeds / sizeof *seeds, len;

    if (index < 0 || (size_t)index >= n || (len = strlen(seeds[index])) > cap)
        return 0;
    memcpy(buf, seeds[index], len);
    return len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pb_recording r;
    uint64_t *self, *total;
    char *text = malloc(size + 1);

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (pb_import(text, size, &r, NULL) == 0) {
        self = calloc(r.stacks.nnodes, sizeof *self);
        total = calloc(r.stacks.nnodes, sizeof *total);
        if (self && total)
            pb_recording_sums(&r, self, total);
        free(self);
        free(total);
        pb_recording_finish(&r);
    }
    free(text);
    return 0;
}
