/*
 * The other end of a socket: of TCP by addresses in /proc/PID/net, of Unix sockets by asking the
 * kernel (sock_diag); which of them spoke last, of TCP, by asking the kernel as well.
 */
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <linux/unix_diag.h>
#include <linux/rtnetlink.h>
#include <arpa/inet.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/process/proc.h"
#include "node/waits/internal.h"

#define TCP_LISTENS 10

struct tcp {
    char local[48], remote[48]; /* addresses in the kernel's form */
    unsigned state;
    uint64_t inode;
};

static bool parse_tcp(const char *line, struct tcp *ret)
{
    unsigned long long inode;

    if (sscanf(line, " %*d: %47s %47s %x %*s %*s %*s %*d %*d %llu", ret->local, ret->remote,
               &ret->state, &inode) != 4)
        return false;
    ret->inode = inode;
    return true;
}

/* "0100007F:1F90" as "127.0.0.1:8080". */
static void put_address(const char *hex, char *buf, size_t cap)
{
    unsigned address, port;
    struct in_addr in;
    char text[INET_ADDRSTRLEN];

    if (strlen(hex) != 13 || sscanf(hex, "%8x:%4x", &address, &port) != 2) {
        snprintf(buf, cap, "%s", "an IPv6 address");
        return;
    }
    in.s_addr = address;
    snprintf(buf, cap, "%s:%u", inet_ntop(AF_INET, &in, text, sizeof text) ? text : "?", port);
}

union answer {
    struct nlmsghdr head;
    char bytes[2048];
};

/* The length of what it says; 0: nothing. */
static size_t ask_kernel(const struct nlmsghdr *question, union answer *ret)
{
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
    ssize_t n = -1;

    if (fd < 0)
        return 0;
    /* The kernel answers within the call that asks. */
    if (send(fd, question, question->nlmsg_len, 0) == (ssize_t)question->nlmsg_len)
        n = recv(fd, ret, sizeof *ret, 0);
    close(fd);
    if (n < (ssize_t)NLMSG_LENGTH(0) || ret->head.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
        ret->head.nlmsg_len > (size_t)n)
        return 0;
    return ret->head.nlmsg_len;
}

/* An attribute of at least so many bytes behind the message's own head. */
static const void *find_attribute(const union answer *m, size_t n, size_t head, int type,
                                  size_t min)
{
    const struct rtattr *at = (const void *)(m->bytes + NLMSG_LENGTH(head));
    long left = (long)n - (long)NLMSG_LENGTH(head);

    for (; left > 0 && RTA_OK(at, left); at = RTA_NEXT(at, left))
        if (at->rta_type == type && RTA_PAYLOAD(at) >= min)
            return RTA_DATA(at);
    return NULL;
}

/* "0100007F:1F90" as the kernel wants it back. */
static bool parse_address(const char *hex, uint32_t *ret, uint16_t *ret_port)
{
    size_t words = strcspn(hex, ":") / 8;
    unsigned port;

    for (size_t i = 0; i < words && i < 4; i++)
        if (sscanf(hex + 8 * i, "%8x", &ret[i]) != 1)
            return false;
    if ((words != 1 && words != 4) || sscanf(hex + 8 * words, ":%4x", &port) != 1)
        return false;
    *ret_port = htons((uint16_t)port);
    return true;
}

/*
 * Has it sent something after what came last? Then it waits for an answer, not for news. Where the
 * network is another one than ours the kernel knows no such socket, or one of another number.
 */
static void find_last_word(const struct tcp *own, struct pb_socket *ret)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 req;
    } q = {.head = {.nlmsg_len = sizeof q, .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                    .nlmsg_flags = NLM_F_REQUEST},
           .req = {.sdiag_protocol = IPPROTO_TCP, .idiag_states = ~0u,
                   .idiag_ext = 1 << (INET_DIAG_INFO - 1)}};
    struct inet_diag_sockid *id = &q.req.id;
    const size_t min = offsetof(struct tcp_info, tcpi_data_segs_out) + sizeof(uint32_t);
    const struct inet_diag_msg *m;
    const struct tcp_info *info;
    union answer buf;
    size_t n;

    q.req.sdiag_family = strlen(own->local) == 13 ? AF_INET : AF_INET6;
    id->idiag_cookie[0] = id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    if (!parse_address(own->local, id->idiag_src, &id->idiag_sport) ||
        !parse_address(own->remote, id->idiag_dst, &id->idiag_dport))
        return;
    n = ask_kernel(&q.head, &buf);
    m = NLMSG_DATA(&buf.head);
    info = find_attribute(&buf, n, sizeof *m, INET_DIAG_INFO, min);
    if (!info || m->idiag_inode != own->inode)
        return;
    ret->spoke = info->tcpi_data_segs_out || info->tcpi_data_segs_in;
    ret->asked = info->tcpi_data_segs_out &&
                 (!info->tcpi_data_segs_in ||
                  info->tcpi_last_data_sent < info->tcpi_last_data_recv);
}

/* Lines of /proc/PID/net/tcp, one after the other; false: there are no more. */
static bool next_tcp(const char **at, struct tcp *ret)
{
    while (*at && **at) {
        const char *line = *at;

        *at = strchr(line, '\n');
        *at = *at ? *at + 1 : NULL;
        if (parse_tcp(line, ret))
            return true;
    }
    return false;
}

/* Does it listen at this address, or at this port of all addresses? */
static bool listens_at(const struct tcp *t, const char *address)
{
    const char *port = strchr(t->local, ':'), *wanted = strchr(address, ':');

    return t->state == TCP_LISTENS && port && wanted && strcmp(port, wanted) == 0 &&
           (strcmp(t->local, address) == 0 || strspn(t->local, "0") == (size_t)(port - t->local));
}

/* One that nobody has accepted yet belongs to whoever listens there. */
static void find_tcp_peer(const char *text, const struct tcp *own, struct pb_socket *ret)
{
    uint64_t listener = 0;
    const char *at = text;
    struct tcp t;

    while (next_tcp(&at, &t)) {
        if (strcmp(t.local, own->remote) == 0 && strcmp(t.remote, own->local) == 0)
            ret->peer = t.inode;
        if (listens_at(&t, own->remote))
            listener = t.inode;
    }
    ret->unaccepted = !ret->peer && listener;
    ret->peer = ret->peer ? ret->peer : listener;
}

static bool find_tcp(struct pb_arena *a, pid_t pid, const char *file, uint64_t inode,
                     struct pb_socket *ret)
{
    struct tcp own = {.state = 0}, t;
    size_t len;
    const char *text = pb_proc_read(pid, file, a, &len), *at = text;

    while (next_tcp(&at, &t))
        if (t.inode == inode)
            own = t;
    if (!own.inode)
        return false;
    ret->listens = own.state == TCP_LISTENS;
    put_address(own.remote, ret->where, sizeof ret->where);
    if (!ret->listens) {
        find_tcp_peer(text, &own, ret);
        find_last_word(&own, ret);
    }
    return true;
}

static uint64_t unix_peer(uint64_t inode)
{
    struct {
        struct nlmsghdr head;
        struct unix_diag_req req;
    } q = {.head = {.nlmsg_len = sizeof q, .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                    .nlmsg_flags = NLM_F_REQUEST},
           .req = {.sdiag_family = AF_UNIX, .udiag_states = ~0u, .udiag_ino = (uint32_t)inode,
                   .udiag_show = UDIAG_SHOW_PEER, .udiag_cookie = {~0u, ~0u}}};
    union answer buf;
    size_t n = ask_kernel(&q.head, &buf);
    const void *peer = find_attribute(&buf, n, sizeof(struct unix_diag_msg), UNIX_DIAG_PEER,
                                      sizeof(uint32_t));

    return peer ? *(const uint32_t *)peer : 0;
}

void pb_socket_look(struct pb_arena *a, pid_t pid, uint64_t inode, struct pb_socket *ret)
{
    *ret = (struct pb_socket){.peer = 0};
    if (!find_tcp(a, pid, "net/tcp", inode, ret) && !find_tcp(a, pid, "net/tcp6", inode, ret))
        ret->peer = unix_peer(inode);
}
