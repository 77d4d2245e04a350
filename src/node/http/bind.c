/* Addresses as text, and sockets that listen at them. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "host/net/http_dial.h"
#include "node/http/conn.h"
#include "node/http/server.h"

#define BACKLOG 256

/*
 * The socket gets its name when somebody already listens on it, so that whoever finds the name
 * can connect. A name that nobody answers to was left behind by a node that was killed.
 */
int pb_server_bind(const char *path, struct pb_err *err)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int n = snprintf(at.sun_path, sizeof at.sun_path, "%s.%d", path, (int)getpid());
    int fd, other;

    if (n < 0 || (size_t)n >= sizeof at.sun_path)
        return pb_err_set(err, PB_USAGE, "%s: too long for a socket", path);
    other = pb_http_dial_unix(path, 1000, NULL);
    if (other >= 0) {
        close(other);
        return pb_err_set(err, PB_FAIL, "%s: a node is running already", path);
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return pb_err_set(err, PB_FAIL, "socket: %s", strerror(errno));
    unlink(at.sun_path);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || chmod(at.sun_path, 0600) < 0 ||
        listen(fd, BACKLOG) < 0 || rename(at.sun_path, path) < 0) {
        pb_err_set(err, PB_FAIL, "%s: %s", path, strerror(errno));
        unlink(at.sun_path);
        close(fd);
        return -1;
    }
    return fd;
}

void pb_address_text(const struct sockaddr_storage *at, char *buf, size_t cap)
{
    char host[128] = "", port[16] = "";

    getnameinfo((const struct sockaddr *)at, sizeof *at, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(buf, cap, at->ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

int pb_address_resolve(const char *address, char *host, struct sockaddr_storage *ret,
                       socklen_t *ret_len, struct pb_err *err)
{
    struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | AI_PASSIVE};
    struct addrinfo *found, *best;
    char port[8];
    const char *name;
    int rc;

    if (pb_http_split(address, host, port, err) < 0)
        return -1;
    name = strcmp(host, "*") == 0 ? "0.0.0.0" : *host ? host : "127.0.0.1";
    rc = getaddrinfo(name, port, &want, &found);
    if (rc != 0)
        return pb_err_set(err, PB_USAGE, "%s: %s", address, gai_strerror(rc));
    best = found;
    for (struct addrinfo *p = found; p; p = p->ai_next)
        if (p->ai_family == AF_INET && best->ai_family != AF_INET)
            best = p;
    memcpy(ret, best->ai_addr, best->ai_addrlen);
    *ret_len = best->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

int pb_address_bind(const struct sockaddr_storage *at, socklen_t len, const char *text,
                    struct pb_err *err)
{
    int fd = socket(at->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;

    if (fd < 0)
        return pb_err_set(err, PB_FAIL, "socket: %s", strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (const struct sockaddr *)at, len) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    if (errno == EADDRINUSE)
        pb_err_set(err, PB_FAIL, "%s: in use by another program", text);
    else if (errno == EACCES)
        pb_err_set(err, PB_DENIED, "%s: not permitted: ports below 1024 are root's", text);
    else
        pb_err_set(err, PB_FAIL, "%s: %s", text, strerror(errno));
    close(fd);
    return -1;
}
