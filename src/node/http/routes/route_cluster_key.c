/*
 * GET /api/cluster/key - the token of the cluster, for its user's own commands.
 *
 * A rank on another machine is asked there, by the command itself, and the token of the cluster may
 * be another than this user's own: where the node was started by ssh from elsewhere, say.
 */
#include <string.h>

#include "host/text/json_write.h"
#include "node/http/request.h"
#include "node/parts.h"
#include "node/peers/peers.h"

static void run(struct pb_request *rq);

const struct pb_route pb_route_cluster_key = {
    .method = "GET",
    .path = "/api/cluster/key",
    .doc = "the token of the cluster, where it is not the user's own",
    .flags = PB_ROUTE_LOCAL,
    .needs = PB_RIGHT_CONTROL,
    .run = run,
};

static void run(struct pb_request *rq)
{
    struct pb_buf b = PB_BUF_INIT;
    char token[PB_TOKEN_MAX];

    pb_peers_token(rq->node->peers, token);
    pb_buf_putc(&b, '{');
    pb_json_key(&b, "token");
    pb_json_string_or_null(&b, token[0] ? token : NULL);
    pb_buf_putc(&b, '}');
    pb_reply_json(rq, &b);
    explicit_bzero(b.data, b.len);
    explicit_bzero(token, sizeof token);
    pb_buf_finish(&b);
}
