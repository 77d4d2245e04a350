/* The port of a node in a cluster: one, for which the cluster's token is good. */
#include "node/http/server.h"
#include "node/peers/peers.h"

static int open_port(void *arg, const char *address, const char *token, char *ret_bound,
                     size_t cap, struct pb_err *err)
{
    struct pb_listen w = {.address = address, .token = token, .brief = true};

    return pb_server_open(arg, &w, ret_bound, cap, err);
}

static void close_port(void *arg, const char *bound)
{
    pb_server_close(arg, bound);
}

void pb_server_port(struct pb_server *s, struct pb_peers_port *ret)
{
    *ret = (struct pb_peers_port){.open = open_port, .close = close_port, .arg = s};
}
