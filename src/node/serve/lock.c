#include "node/serve/lock.h"

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
int pb_serve_data_folder(const char *path, struct pb_err *err)
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

bool pb_serve_lock_read(const char *path, struct pb_serve_lock *ret)
{
    FILE *f = fopen(path, "re");
    int n, ready = 1; /* which some versions do not say */

    memset(ret, 0, sizeof *ret);
    if (!f)
        return false;
    n = fscanf(f, "pid=%d version=%31s socket=%127s listeners=%d active=%d ready=%d", &ret->pid,
               ret->version, ret->socket, &ret->listeners, &ret->active, &ready);
    fclose(f);
    ret->ready = ready;
    return n >= 5 && ret->pid > 0;
}

void pb_serve_lock_write(int lock, const struct pb_serve_lock *text)
{
    char line[256];
    int len = snprintf(line, sizeof line,
                       "pid=%d\nversion=%s\nsocket=%s\nlisteners=%d\nactive=%d\nready=%d\n",
                       text->pid, text->version, text->socket, text->listeners, text->active,
                       text->ready);

    /* Cut afterwards: whoever reads meanwhile finds all lines. */
    if (len < (int)sizeof line && pwrite(lock, line, (size_t)len, 0) == len &&
        ftruncate(lock, len) < 0)
        return;
}

/* A node of another version that nobody uses makes room; one that is used stays. */
static int replace_other(const struct pb_serve_paths *paths, struct pb_err *err)
{
    struct pb_serve_lock other;

    if (!pb_serve_lock_read(paths->lock, &other) ||
        strcmp(other.version, pb_node_version()) == 0 || !pb_serve_answers(other.socket))
        return 0;
    if (other.listeners || other.active)
        return pb_err_set(err, PB_FAIL,
                          "node %d of probing %s is in use. End it with: probing serve --stop",
                          other.pid, other.version);
    return pb_serve_stop(err) < 0 ? -1 : 0;
}

int pb_serve_lock_acquire(const struct pb_serve_paths *paths, int *ret, struct pb_err *err)
{
    uint64_t deadline = pb_clock_ns() + LOCK_TIMEOUT_MS * 1000000ull;

    *ret = open(paths->lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (*ret < 0)
        return pb_err_set(err, errno == EACCES ? PB_DENIED : PB_FAIL, "%s: %s", paths->lock,
                          strerror(errno));
    while (flock(*ret, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return pb_err_set(err, PB_FAIL, "%s: %s", paths->lock, strerror(errno));
        if (pb_serve_answers(paths->socket))
            return 1;
        if (replace_other(paths, err) < 0)
            return -1;
        /* One is just starting or ending. */
        if (pb_clock_ns() > deadline)
            return pb_err_set(err, PB_TIMEOUT, "another node holds %s and does not answer",
                              paths->data);
        usleep(1000);
    }
    return 0;
}

/* The folder of the socket is the one that agents use. */
int pb_serve_socket_folder(const char *socket, struct pb_err *err)
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
