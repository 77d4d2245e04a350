/*
 * GET /api/cluster - the nodes of the cluster that this one belongs to.
 */
#include "base/clock.h"
#include "host/text/json_write.h"
#include "node/http/request.h"
#include "node/parts.h"
#include "node/peers/peers.h"

static void run(struct pb_request *rq);

const struct pb_route pb_route_cluster = {
    .method = "GET",
    .path = "/api/cluster",
    .doc = "the nodes of the cluster that this one belongs to",
    .run = run,
};

/* What this node alone knows goes around the record that all share. */
static void put_member(struct pb_buf *b, const struct pb_member *one, bool self)
{
    uint64_t now = pb_clock_ns();

    pb_member_write(b, one);
    pb_buf_cut(b, b->len - 1);
    pb_json_key(b, "self");
    pb_json_bool(b, self);
    pb_json_key(b, "address");
    pb_json_string(b, pb_member_address(one));
    pb_json_key(b, "reason");
    pb_json_string_or_null(b, one->reason[0] ? one->reason : NULL);
    pb_json_key(b, "heard_ms");
    if (one->heard_ns)
        pb_json_int(b, (int64_t)((now - one->heard_ns) / 1000000));
    else
        pb_buf_puts(b, "null");
    pb_json_key(b, "since_ms");
    pb_json_int(b, (int64_t)((now - one->since_ns) / 1000000));
    pb_json_key(b, "clock_offset_us");
    if (one->error_ns)
        pb_buf_printf(b, "%.1f", (double)one->offset_ns / 1e3);
    else
        pb_buf_puts(b, "null");
    pb_json_key(b, "clock_error_us");
    if (one->error_ns)
        pb_buf_printf(b, "%.1f", (double)one->error_ns / 1e3);
    else
        pb_buf_puts(b, "null");
    pb_buf_putc(b, '}');
}

static void run(struct pb_request *rq)
{
    struct pb_buf b = PB_BUF_INIT;
    struct pb_peers_list list;

    /* The jobs of others are out of reach for whoever sees some processes alone. */
    if (rq->reach)
        list = (struct pb_peers_list){.address = ""};
    else
        pb_peers_list(rq->node->peers, rq->arena, &list);
    pb_buf_puts(&b, "{");
    pb_json_key(&b, "attached");
    pb_json_bool(&b, list.attached);
    pb_json_key(&b, "name");
    pb_json_string_or_null(&b, list.attached ? list.name : NULL);
    pb_json_key(&b, "observer");
    pb_json_bool(&b, list.observer);
    pb_json_key(&b, "listening");
    pb_json_string_or_null(&b, *list.address ? list.address : NULL);
    pb_json_key(&b, "refused");
    pb_json_int(&b, (int64_t)list.refused);
    pb_json_key(&b, "members");
    pb_buf_putc(&b, '[');
    for (size_t i = 0; i < list.n; i++)
        put_member(&b, &list.v[i], i == 0 && !list.observer);
    pb_buf_puts(&b, "]}");
    pb_reply_json(rq, &b);
    pb_buf_finish(&b);
}
