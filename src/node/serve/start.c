#include "node/serve/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/process/proc.h"

#define START_TIMEOUT_MS 10000
#define STOP_TIMEOUT_MS 20000

/* A connection, or -1; *ret_peer: who listens. */
static int connect_to(const char *socket_path, pid_t *ret_peer)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct ucred who;
    socklen_t len = sizeof who;
    int fd;

    if (strlen(socket_path) >= sizeof at.sun_path)
        return -1;
    snprintf(at.sun_path, sizeof at.sun_path, "%s", socket_path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&at, sizeof at) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0) {
        close(fd);
        return -1;
    }
    if (ret_peer)
        *ret_peer = who.pid;
    return fd;
}

/*
 * Who listened on it first is the supervisor. When that one was killed, its server goes with it,
 * but the kernel takes connections for another moment.
 */
static bool lives(pid_t pid)
{
    struct pb_proc_stat stat;

    return pb_proc_stat(&stat, pid, 0, NULL) == 0 && stat.state != 'Z' && stat.state != 'X';
}

bool pb_serve_answers(const char *socket)
{
    pid_t peer = 0;
    int fd = connect_to(socket, &peer);

    if (fd < 0)
        return false;
    close(fd);
    return lives(peer);
}

/* In the child: becomes the node. Nothing of the command's stays but the environment. */
static void become_node(const struct pb_serve_paths *paths, int report)
{
    char *const argv[] = {(char *)"probing", (char *)"serve", (char *)"--on-demand", NULL};
    struct sigaction normal = {.sa_handler = SIG_DFL};
    sigset_t none;
    int null = open("/dev/null", O_RDWR);

    setsid();
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int s = 1; s < NSIG; s++)
        sigaction(s, &normal, NULL);
    dup2(report, STDERR_FILENO);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    close_range(3, ~0U, 0);
    /* A relative one would mean something else there. */
    if (setenv("PROBING_HOME", paths->data, 1) < 0 || chdir("/") < 0)
        _exit(1);
    execv("/proc/self/exe", argv);
    dprintf(STDERR_FILENO, "probing: cannot start a node: %s\n", strerror(errno));
    _exit(1);
}

/* What the node says before it is ready; at the end of it, it is, or it has ended. */
static int read_report(int fd, char *buf, size_t cap)
{
    uint64_t deadline = pb_clock_ns() + START_TIMEOUT_MS * 1000000ull;
    size_t len = 0;

    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        uint64_t now = pb_clock_ns();
        ssize_t n;

        if (now >= deadline)
            return -1;
        if (poll(&p, 1, (int)((deadline - now) / 1000000u) + 1) <= 0)
            continue;
        n = read(fd, buf + len, cap - 1 - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0 || len + (size_t)n >= cap - 1) {
            buf[len] = '\0';
            return 0;
        }
        len += (size_t)n;
    }
}

static int explain(char *text, pid_t child, struct pb_err *err)
{
    int status = 0;
    enum pb_code code = PB_FAIL;

    if (waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) < 6)
        code = (enum pb_code)WEXITSTATUS(status);
    text[strcspn(text, "\n")] = '\0';
    return pb_err_set(err, code == PB_OK || code == PB_USAGE ? PB_FAIL : code, "%s",
                      strncmp(text, "probing: ", 9) == 0 ? text + 9
                      : *text                            ? text
                                                         : "the node ended at once");
}

int pb_serve_start(struct pb_err *err)
{
    struct pb_serve_paths paths;
    char text[640];
    int report[2], rc;
    pid_t child;

    if (pb_serve_paths_find(&paths, err) < 0)
        return -1;
    if (pb_serve_answers(paths.socket))
        return 0;
    if (pipe2(report, O_CLOEXEC) < 0)
        return pb_err_set(err, PB_FAIL, "pipe: %s", strerror(errno));
    child = fork();
    if (child == 0)
        become_node(&paths, report[1]);
    close(report[1]);
    rc = child < 0 ? -1 : read_report(report[0], text, sizeof text);
    close(report[0]);
    if (child < 0)
        return pb_err_set(err, PB_FAIL, "cannot start a node: %s", strerror(errno));
    if (rc < 0)
        return pb_err_set(err, PB_TIMEOUT, "the node did not start in %d s; see %s",
                          START_TIMEOUT_MS / 1000, paths.log);
    if (pb_serve_answers(paths.socket))
        return 0;
    return explain(text, child, err);
}

int pb_serve_stop(struct pb_err *err)
{
    uint64_t deadline = pb_clock_ns() + STOP_TIMEOUT_MS * 1000000ull;
    struct pb_serve_paths paths;
    struct pb_serve_lock lock;
    int fd = -1, conn;
    pid_t peer = 0;

    if (pb_serve_paths_find(&paths, err) < 0)
        return -1;
    fd = open(paths.lock, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) == 0) {
        if (fd >= 0)
            close(fd);
        return 1;
    }
    /* Whoever answers on the socket is it, whatever its version. */
    conn = connect_to(pb_serve_lock_read(paths.lock, &lock) ? lock.socket : paths.socket, &peer);
    if (conn >= 0)
        close(conn);
    if (peer > 0)
        kill(peer, SIGTERM);
    while (flock(fd, LOCK_SH | LOCK_NB) < 0) {
        if (pb_clock_ns() > deadline) {
            close(fd);
            return pb_err_set(err, PB_TIMEOUT, "the node does not end; see %s", paths.log);
        }
        usleep(2000);
    }
    close(fd);
    return 0;
}
