#include "base/wire.h"

#include <string.h>

struct limits {
    uint16_t type;
    bool from_tool;
    uint32_t least, most;
};

static const struct limits limits[] = {
    {PB_WIRE_HELLO, false, 0, 1023},
    {PB_WIRE_EVAL, true, sizeof(struct pb_wire_eval), PB_WIRE_MAX},
    {PB_WIRE_INTERRUPT, true, 0, 0},
    {PB_WIRE_COMPLETE, true, 0, PB_WIRE_PIECE},
    {PB_WIRE_CONFIG, true, 0, PB_WIRE_PIECE},
    {PB_WIRE_EJECT, true, 0, 0},
    {PB_WIRE_STATUS, true, 0, 0},
    {PB_WIRE_CLIENT, true, 0, 512},
    {PB_WIRE_OUT, false, 0, PB_WIRE_PIECE},
    {PB_WIRE_ERR, false, 0, PB_WIRE_PIECE},
    {PB_WIRE_DONE, false, sizeof(struct pb_wire_done), PB_WIRE_PIECE},
};

static bool good_head(const struct pb_wire_head *h, bool from_tool)
{
    if (h->magic != PB_WIRE_MAGIC || h->flags)
        return false;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i].type == h->type)
            return limits[i].from_tool == from_tool && h->len >= limits[i].least &&
                   h->len <= limits[i].most;
    return false;
}

void *pb_wire_buffer(struct pb_wire_in *in, size_t *ret_len)
{
    if (in->got < sizeof in->head) {
        *ret_len = sizeof in->head - in->got;
        return (unsigned char *)&in->head + in->got;
    }
    *ret_len = in->head.len + sizeof in->head - in->got;
    return in->body + (in->got - sizeof in->head);
}

enum pb_wire_step pb_wire_received(struct pb_wire_in *in, size_t n, bool from_tool)
{
    bool in_head = in->got < sizeof in->head;

    in->got += n;
    if (in->got < sizeof in->head)
        return PB_WIRE_MORE_BYTES;
    if (in_head) {
        if (!good_head(&in->head, from_tool))
            return PB_WIRE_BAD;
        return in->head.len ? PB_WIRE_BODY : PB_WIRE_MESSAGE;
    }
    return in->got == in->head.len + sizeof in->head ? PB_WIRE_MESSAGE : PB_WIRE_MORE_BYTES;
}

void pb_wire_next(struct pb_wire_in *in)
{
    memset(in, 0, sizeof *in);
}
