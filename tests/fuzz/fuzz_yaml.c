/* Any bytes as a file of settings: the reader ends, and what it gives are proper strings. */
#include <stdint.h>
#include <string.h>

#include "cli/settings/yaml.h"

/* Whatever refers to whatever: no more than this of keys and values. */
#define BYTES_MAX ((size_t)PB_YAML_MAX * 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_err err = {0};
    struct pb_yaml y;
    size_t bytes = 0;
    int rc = pb_yaml_parse(&y, &a, (const char *)data, size, &err);

    if ((rc < 0) != (err.code != PB_OK) || y.n > PB_YAML_PAIRS)
        __builtin_trap();
    for (size_t i = 0; rc == 0 && i < y.n; i++)
        if (!*y.v[i].key || (bytes += strlen(y.v[i].key) + strlen(y.v[i].value)) > BYTES_MAX)
            __builtin_trap();
    pb_arena_finish(&a);
    return 0;
}

size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap)
{
    static const char *const seeds[] = {
        "---\nprobing:\n  eval:\n    timeout: 5 # s\n  agent.follow_forks: \"o\\tff\"\n",
        "a: 'it''s'\n\"b c\": \"\\\"\"\r\nd:\n e:\n  f: x\n g: y\n...\n",
        "a: [1]\n- b\n",
        "x-a: &u {a: 1, b: 2}\ny: {<<: *u, b: 3}\nz: [*u, {<<: [*u, *u]}]\n",
        "a: &a [*a, !!int 5, |\n text\n]\n? [k]\n: ~\n",
    };
    size_t n;

    if (index < 0 || (size_t)index >= sizeof seeds / sizeof seeds[0])
        return 0;
    n = strlen(seeds[index]);
    if (n > cap)
        return 0;
    memcpy(buf, seeds[index], n);
    return n;
}
