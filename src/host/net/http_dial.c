#include "host/net/http_dial.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/net/http.h"
#include "host/net/stream.h"
#include "host/net/tls.h"

#define NS_PER_MS 1000000ull

/* Whoever listens must be this user or root; root may talk to anybody. */
static bool is_ours(int fd)
{
    struct ucred who;
    socklen_t len = sizeof who;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 &&
           (who.uid == geteuid() || who.uid == 0 || geteuid() == 0);
}

static int fail_socket(const char *path, struct pb_err *err)
{
    switch (errno) {
    case ENOENT:
    case ECONNREFUSED:
    case ENOTDIR:
        return pb_err_set(err, PB_NO_TARGET, "%s: nobody listens", path);
    case EACCES:
    case EPERM:
        return pb_err_set(err, PB_DENIED, "%s: not permitted", path);
    case EAGAIN:
    case ETIMEDOUT:
        return pb_err_set(err, PB_TIMEOUT, "%s: does not answer", path);
    default:
        return pb_err_set(err, PB_FAIL, "%s: %s", path, strerror(errno));
    }
}

int pb_http_dial_unix(const char *path, int timeout_ms, struct pb_err *err)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct timeval wait = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
    int fd;

    if (strlen(path) >= sizeof at.sun_path)
        return pb_err_set(err, PB_USAGE, "%.80s…: too long for a socket", path);
    memcpy(at.sun_path, path, strlen(path));
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return pb_err_set(err, PB_FAIL, "socket: %s", strerror(errno));
    /* While the queue of the listener is full, connect waits for as long as a send may. */
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
    if (connect(fd, (struct sockaddr *)&at, sizeof at) < 0)
        fail_socket(path, err);
    else if (!is_ours(fd))
        pb_err_set(err, PB_DENIED, "%s: a process of another user listens there", path);
    else if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
        pb_err_set(err, PB_FAIL, "fcntl: %s", strerror(errno));
    else
        return fd;
    close(fd);
    return -1;
}

/* Waits for a connection that is on its way; errno says what became of it. */
static bool await_connection(int fd, uint64_t until)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int rc, failed = 0;
    socklen_t len = sizeof failed;

    do {
        uint64_t now = pb_clock_ns();

        rc = poll(&p, 1, now < until ? (int)((until - now) / NS_PER_MS) + 1 : 0);
    } while (rc < 0 && errno == EINTR);
    if (rc == 0)
        errno = ETIMEDOUT;
    else if (rc > 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &len) == 0)
        errno = failed;
    return rc > 0 && failed == 0;
}

static int dial_one(const struct addrinfo *to, uint64_t until)
{
    int one = 1, fd, why;

    fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    /* Questions are small and wait for their answers: nothing is gained by holding them back. */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    if (connect(fd, to->ai_addr, to->ai_addrlen) == 0 ||
        (errno == EINPROGRESS && await_connection(fd, until)))
        return fd;
    why = errno;
    close(fd);
    errno = why;
    return -1;
}

static int fail_host(const char *address, struct pb_err *err)
{
    enum pb_code code = errno == ETIMEDOUT                               ? PB_TIMEOUT
                        : errno == ECONNREFUSED || errno == EHOSTUNREACH ? PB_NO_TARGET
                                                                         : PB_FAIL;

    return pb_err_set(err, code, "%s: %s", address,
                      errno == ECONNREFUSED ? "nobody listens there"
                      : errno == ETIMEDOUT  ? "does not answer"
                                            : strerror(errno));
}

int pb_http_dial_tcp(const char *address, int timeout_ms, struct pb_err *err)
{
    struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *found;
    char host[PB_HTTP_NAME_MAX], port[8];
    uint64_t until = pb_clock_ns() + (uint64_t)timeout_ms * NS_PER_MS;
    uint64_t left = 0;
    int rc, fd = -1;

    if (pb_http_split(address, host, port, err) < 0)
        return -1;
    rc = getaddrinfo(*host ? host : "localhost", port, &want, &found);
    if (rc != 0)
        return pb_err_set(err, PB_NO_TARGET, "%s: %s", address, gai_strerror(rc));
    for (const struct addrinfo *p = found; p; p = p->ai_next)
        left++;
    /* Each address has its share of the time, so that one that swallows packets is not all. */
    for (const struct addrinfo *p = found; p && fd < 0; p = p->ai_next, left--) {
        uint64_t now = pb_clock_ns();

        fd = dial_one(p, now < until ? now + (until - now) / left : now);
    }
    if (fd < 0)
        fail_host(address, err);
    freeaddrinfo(found);
    return fd;
}

int pb_http_dial_handshake(struct pb_stream *s, int timeout_ms, struct pb_err *err)
{
    uint64_t until = pb_clock_ns() + (uint64_t)timeout_ms * NS_PER_MS, now;
    int rc;

    while ((rc = pb_tls_handshake(s->tls, err)) > 0) {
        struct pollfd p = {.fd = s->fd, .events = pb_tls_events(s->tls)};

        now = pb_clock_ns();
        if (now >= until)
            return pb_err_set(err, PB_TIMEOUT, "does not answer");
        if (poll(&p, 1, (int)((until - now) / NS_PER_MS) + 1) < 0 && errno != EINTR)
            return pb_err_set(err, PB_FAIL, "poll: %s", strerror(errno));
    }
    return rc;
}

/* The bytes of an address; of one of the fourth version in the sixth's clothes, those four. */
static size_t bytes_of(const struct sockaddr_storage *at, const unsigned char **ret)
{
    const struct sockaddr_in *four = (const struct sockaddr_in *)at;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)at;

    if (at->ss_family == AF_INET) {
        *ret = (const unsigned char *)&four->sin_addr;
        return 4;
    }
    *ret = six->sin6_addr.s6_addr;
    if (at->ss_family != AF_INET6)
        return 0;
    if (!IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
        return 16;
    *ret += 12;
    return 4;
}

bool pb_http_is_here(int fd)
{
    struct sockaddr_storage ends[2];
    const unsigned char *bytes[2];
    socklen_t size = sizeof ends[0];
    size_t len[2];

    if (getsockname(fd, (struct sockaddr *)&ends[0], &size) < 0)
        return false;
    size = sizeof ends[1];
    if (getpeername(fd, (struct sockaddr *)&ends[1], &size) < 0)
        return false;
    for (int i = 0; i < 2; i++)
        len[i] = bytes_of(&ends[i], &bytes[i]);
    if (len[1] == 4 && bytes[1][0] == 127)
        return true;
    return len[0] && len[0] == len[1] && memcmp(bytes[0], bytes[1], len[0]) == 0;
}
