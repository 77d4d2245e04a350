/*
 * Any bytes, in pieces of any size, as messages to an agent and from one; and
 * as settings. The reader never asks for more than the limits allow and never
 * writes outside of what it was given.
 */
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "base/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap);

static void read_stream(const uint8_t *data, size_t size, bool from_tool)
{
    struct pb_wire_in in = {0};
    unsigned char *body = NULL;

    while (size) {
        size_t want, n = 1 + data[0] % 37;
        void *to = pb_wire_buffer(&in, &want);
        enum pb_wire_step step;

        if (!want || (in.got >= sizeof in.head && !body))
            __builtin_trap();
        if (n > want)
            n = want;
        if (n > size)
            n = size;
        memcpy(to, data, n);
        data += n;
        size -= n;
        step = pb_wire_received(&in, n, from_tool);
        if (step == PB_WIRE_BAD)
            break;
        if (step == PB_WIRE_BODY) {
            if (!in.head.len || in.head.len > PB_WIRE_MAX)
                __builtin_trap();
            in.body = body = malloc(in.head.len);
        } else if (step == PB_WIRE_MESSAGE) {
            free(body);
            body = NULL;
            pb_wire_next(&in);
        }
    }
    free(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pb_settings s;
    struct pb_err err = {0};

    read_stream(data, size, true);
    read_stream(data, size, false);
    pb_settings_init(&s);
    if (pb_settings_apply_lines(&s, (const char *)data, size, &err) < 0 && err.code == PB_OK)
        __builtin_trap();
    for (int i = 0; i < PB_SETTING_COUNT; i++)
        if (s.v[i] < pb_setting_list[i].min || s.v[i] > pb_setting_list[i].max)
            __builtin_trap();
    return 0;
}

size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap)
{
    static const char lines[] = "eval.timeout=5\nprobing.agent.follow_forks = off\n";
    struct pb_wire_head heads[] = {
        {.magic = PB_WIRE_MAGIC, .type = PB_WIRE_EVAL, .id = 1, .len = 20},
        {.magic = PB_WIRE_MAGIC, .type = PB_WIRE_DONE, .id = 1, .len = 9},
        {.magic = PB_WIRE_MAGIC, .type = PB_WIRE_STATUS, .id = 1},
    };

    if (cap < 128 || index > 3)
        return 0;
    memset(buf, 'x', cap);
    if (index == 3) {
        memcpy(buf, lines, sizeof lines - 1);
        return sizeof lines - 1;
    }
    memcpy(buf, &heads[index], sizeof *heads);
    memcpy(buf + sizeof *heads + heads[index].len, &heads[2], sizeof *heads);
    return 2 * sizeof *heads + heads[index].len;
}
