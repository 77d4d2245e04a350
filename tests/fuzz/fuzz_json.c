/* Any bytes as JSON: the reader ends, and what it gives is proper, bounded and inside its text. */
#include <stdint.h>
#include <string.h>

#include "host/text/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap);

static size_t check(const struct pb_json *v, size_t most, int depth)
{
    size_t values = 1;

    if (depth > PB_JSON_DEPTH)
        __builtin_trap();
    switch (v->type) {
    case PB_J_STRING:
    case PB_J_INT:
    case PB_J_REAL:
        if (v->s[v->len] != '\0' || v->len > most)
            __builtin_trap();
        break;
    case PB_J_OBJECT:
        for (size_t i = 0; i < v->n; i++)
            if (!v->items[i].key || !pb_json_get(v, v->items[i].key))
                __builtin_trap();
        break;
    default:
        break;
    }
    for (size_t i = 0; i < v->n; i++)
        values += check(&v->items[i], most, depth + 1);
    return values;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_err err = {0};
    struct pb_json v;
    int rc = pb_json_parse(&a, (const char *)data, size, &v, &err);

    if ((rc < 0) != (err.code != PB_OK))
        __builtin_trap();
    if (rc == 0 && check(&v, size, 0) > PB_JSON_VALUES)
        __builtin_trap();
    pb_arena_finish(&a);
    return 0;
}

size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap)
{
    static const char *const seeds[] = {
        "{\"sql\":\"select 1\",\"target\":1234,\"max_rows\":10,\"timeout\":2.5e0,\"x\":null}",
        "[\"\\u00e9\\ud83d\\ude00\\\\\\n\",true,false,[[[]]],{\"a\":{\"a\":-0.0E+5}}]",
        "{\"error\":{\"code\":\"failed\",\"at\":9223372036854775807,\"nearest\":\"\\uD800\"}} ",
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
