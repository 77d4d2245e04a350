#include "node/watchdog/keeper.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "host/text/alloc.h"

enum { STATE_MAX = 64 << 10 };

struct kept {
    int fd; /* -1: none */
    void *state;
    size_t len;
};

struct pb_keeper {
    int supervisor_end, server_end; /* the supervisor's descriptor; the server's */
    struct kept kept[PB_KEEPER_SLOTS];
    char state[STATE_MAX]; /* state of the message being read */
};

struct pb_keeper *pb_keeper_create(void)
{
    struct pb_keeper *k = pb_alloc_resize(NULL, sizeof *k);
    int pair[2];

    memset(k, 0, sizeof *k);
    for (int i = 0; i < PB_KEEPER_SLOTS; i++)
        k->kept[i].fd = -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        free(k);
        return NULL;
    }
    k->supervisor_end = pair[0];
    k->server_end = pair[1];
    return k;
}

static void clear_slot(struct kept *kept)
{
    if (kept->fd >= 0)
        close(kept->fd);
    free(kept->state);
    *kept = (struct kept){.fd = -1};
}

void pb_keeper_destroy(struct pb_keeper *k)
{
    if (!k)
        return;
    for (int i = 0; i < PB_KEEPER_SLOTS; i++)
        clear_slot(&k->kept[i]);
    close(k->supervisor_end);
    close(k->server_end);
    free(k);
}

void pb_keeper_put(struct pb_keeper *k, int slot, int fd, const void *state, size_t len)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof fd)];
    } control = {0};
    struct iovec parts[] = {{&slot, sizeof slot}, {(void *)(uintptr_t)state, len}};
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};
    struct cmsghdr *c;

    if (!k || len > STATE_MAX)
        return;
    if (fd >= 0) {
        m.msg_control = control.room;
        m.msg_controllen = sizeof control.room;
        c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    if (sendmsg(k->server_end, &m, MSG_NOSIGNAL) < 0)
        return; /* the socket ends with its server then */
}

void pb_keeper_drop(struct pb_keeper *k, int slot)
{
    pb_keeper_put(k, slot, -1, "", 0);
}

int pb_keeper_fd(const struct pb_keeper *k)
{
    return k->supervisor_end;
}

void pb_keeper_pump(struct pb_keeper *k)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    int slot, fd;
    ssize_t n;

    for (;;) {
        struct iovec parts[] = {{&slot, sizeof slot}, {k->state, sizeof k->state}};
        struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2, .msg_control = control.room,
                           .msg_controllen = sizeof control.room};
        struct cmsghdr *c;

        n = recvmsg(k->supervisor_end, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n < (ssize_t)sizeof slot)
            return;
        c = CMSG_FIRSTHDR(&m);
        fd = -1;
        if (c && c->cmsg_type == SCM_RIGHTS)
            memcpy(&fd, CMSG_DATA(c), sizeof fd);
        if (slot < 0 || slot >= PB_KEEPER_SLOTS) {
            if (fd >= 0)
                close(fd);
            continue;
        }
        clear_slot(&k->kept[slot]);
        k->kept[slot].fd = fd;
        k->kept[slot].len = (size_t)n - sizeof slot;
        k->kept[slot].state = pb_alloc_resize(NULL, k->kept[slot].len);
        memcpy(k->kept[slot].state, k->state, k->kept[slot].len);
    }
}

void pb_keeper_hold(struct pb_keeper *k, int slot, int fd)
{
    clear_slot(&k->kept[slot]);
    k->kept[slot].fd = fd;
}

int pb_keeper_get(const struct pb_keeper *k, int slot, const void **ret_state, size_t *ret_len)
{
    if (!k)
        return -1;
    *ret_state = k->kept[slot].state;
    *ret_len = k->kept[slot].len;
    return k->kept[slot].fd;
}
