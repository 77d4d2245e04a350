#include "cli/servelock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/home.h"
#include "node/node.h"

#define LOCK_TIMEOUT_MS 10000

/* Every folder of the path; the last one for this user alone. */
int pb_servelock_folder(const char *path, struct pb_err *err)
{
    char part[PATH_MAX];

    for (const char *p = path + 1;; p++) {
        if (*p && *p != '/')
            continue;
        snprintf(part, sizeof part, "%.*s", (int)(p - path), path);
        if (mkdir(part, 0700) < 0 && errno != EEXIST)
            return pb_err_set(err, errno == EACCES ? PB_DENIED : PB_FAIL,
                              "cannot make %s: %s. Set PROBING_HOME to a folder for history",
                              part, strerror(errno));
        if (!*p)
            return 0;
    }
}

void pb_servelock_write(int lock, const struct pb_nodelock *text)
{
    char line[256];
    int len = snprintf(line, sizeof line,
                       "pid=%d\nversion=%s\nsocket=%s\nlisteners=%d\nactive=%d\n", text->pid,
                       text->version, text->socket, text->listeners, text->active);

    /* Cut afterwards: whoever reads meanwhile finds all five lines. */
    if (len < (int)sizeof line && pwrite(lock, line, (size_t)len, 0) == len &&
        ftruncate(lock, len) < 0)
        return;
}

/* A node of another version that nobody uses makes room; one that is used stays. */
static int replace_other(struct pb_ctx *ctx, const struct pb_nodeplace *place)
{
    struct pb_nodelock other;
    struct pb_err *err = &ctx->err;

    if (!pb_nodelock_read(place->lock, &other) ||
        strcmp(other.version, pb_node_version()) == 0 || !pb_nodeplace_answers(other.socket))
        return 0;
    if (other.listeners || other.active)
        return pb_err_set(err, PB_FAIL,
                          "node %d of probing %s is in use. End it with: probing serve --stop",
                          other.pid, other.version);
    return pb_nodestart_stop(ctx) < 0 ? -1 : 0;
}

int pb_servelock_take(struct pb_ctx *ctx, const struct pb_nodeplace *place, int *ret)
{
    uint64_t deadline = pb_clock_ns() + LOCK_TIMEOUT_MS * 1000000ull;
    struct pb_err *err = &ctx->err;

    *ret = open(place->lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (*ret < 0)
        return pb_err_set(err, errno == EACCES ? PB_DENIED : PB_FAIL, "%s: %s", place->lock,
                          strerror(errno));
    while (flock(*ret, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return pb_err_set(err, PB_FAIL, "%s: %s", place->lock, strerror(errno));
        if (pb_nodeplace_answers(place->socket))
            return 1;
        if (replace_other(ctx, place) < 0)
            return -1;
        /* One is just starting or ending. */
        if (pb_clock_ns() > deadline)
            return pb_err_set(err, PB_TIMEOUT, "another node holds %s and does not answer",
                              place->data);
        usleep(1000);
    }
    return 0;
}

/* The folder of the socket is the one that agents use. */
int pb_servelock_socket_folder(const char *socket, struct pb_err *err)
{
    char path[PATH_MAX];
    int fd, rc;

    snprintf(path, sizeof path, "%s", socket);
    *strrchr(path, '/') = '\0';
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return pb_err_set(err, PB_FAIL, "%s: %s", path, strerror(errno));
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    rc = fd < 0 ? -errno : pb_home_check(fd, geteuid());
    if (fd >= 0)
        close(fd);
    if (rc < 0)
        return pb_err_set(err, PB_DENIED,
                          "%s is not safe: it must be a folder of yours that nobody else can enter",
                          path);
    return 0;
}
