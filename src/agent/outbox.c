#include "agent/outbox.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static void put_bytes(struct pb_outbox *o, const void *data, size_t len)
{
    size_t to = (o->at + o->len) % PB_OUTBOX;
    size_t straight = len < PB_OUTBOX - to ? len : PB_OUTBOX - to;

    if (!len)
        return;
    memcpy(o->data + to, data, straight);
    memcpy(o->data, (const unsigned char *)data + straight, len - straight);
    o->len += len;
}

bool pb_outbox_put(struct pb_outbox *o, enum pb_wire_type type, uint32_t id, const void *first,
                   size_t first_len, const void *second, size_t second_len, size_t reserve)
{
    struct pb_wire_head head = {.magic = PB_WIRE_MAGIC, .type = (uint16_t)type, .id = id,
                                .len = (uint32_t)(first_len + second_len)};

    if (!o->data || o->len + sizeof head + first_len + second_len + reserve > PB_OUTBOX)
        return false;
    put_bytes(o, &head, sizeof head);
    put_bytes(o, first, first_len);
    put_bytes(o, second, second_len);
    return true;
}

bool pb_outbox_send(struct pb_outbox *o, int fd)
{
    while (o->len) {
        size_t straight = o->len < PB_OUTBOX - o->at ? o->len : PB_OUTBOX - o->at;
        ssize_t n = send(fd, o->data + o->at, straight, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        o->at = (o->at + (size_t)n) % PB_OUTBOX;
        o->len -= (size_t)n;
    }
    o->at = 0; /* small answers never touch more than the first page */
    return true;
}
