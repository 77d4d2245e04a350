#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "host/net/agent_client.h"

void pb_agent_introduce(struct pb_agent *a, const struct pb_agent_client *c)
{
    struct pb_wire_head h = {.magic = PB_WIRE_MAGIC, .type = PB_WIRE_CLIENT};
    const char *said = strstr(a->hello, "\nwire=");
    char message[sizeof h + 256];
    int n;

    if (!c || !said || atoi(said + 6) < 2)
        return;
    n = snprintf(message + sizeof h, sizeof message - sizeof h, "uid=%lld\npid=%d\nname=%.*s\n",
                 c->has_uid ? (long long)c->uid : -1, (int)c->pid, PB_WIRE_CLIENT_NAME - 1,
                 c->name);
    h.len = (uint32_t)n;
    memcpy(message, &h, sizeof h);
    /* The first bytes on a connection fit; if not, the next question fails. */
    (void)!send(a->fd, message, sizeof h + (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
}
