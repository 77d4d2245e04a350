#include "cli/nodestart.h"

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
#include "cli/nodelink.h"
#include "host/http.h"
#include "host/json.h"
#include "host/proc.h"
#include "node/node.h"
#include "node/token.h"

#define START_TIMEOUT_MS 10000
#define STOP_TIMEOUT_MS 20000
#define ASK_TIMEOUT_MS 5000

int pb_nodeplace_find(struct pb_nodeplace *p, struct pb_err *err)
{
    if (pb_node_data_dir(p->data, sizeof p->data, err) < 0 ||
        pb_node_socket_path(p->socket, sizeof p->socket, p->data, err) < 0)
        return -1;
    snprintf(p->lock, sizeof p->lock, "%s/node.lock", p->data);
    snprintf(p->log, sizeof p->log, "%s/node.log", p->data);
    return 0;
}

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

bool pb_nodeplace_answers(const char *socket)
{
    pid_t peer = 0;
    int fd = connect_to(socket, &peer);

    if (fd < 0)
        return false;
    close(fd);
    return lives(peer);
}

bool pb_nodelock_read(const char *path, struct pb_nodelock *ret)
{
    FILE *f = fopen(path, "re");
    int n;

    memset(ret, 0, sizeof *ret);
    if (!f)
        return false;
    n = fscanf(f, "pid=%d version=%31s socket=%127s listeners=%d active=%d", &ret->pid,
               ret->version, ret->socket, &ret->listeners, &ret->active);
    fclose(f);
    return n == 5 && ret->pid > 0;
}

/* In the child: becomes the node. Nothing of the command's stays but the environment. */
static void become_node(const struct pb_nodeplace *place, int report)
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
    if (setenv("PROBING_HOME", place->data, 1) < 0 || chdir("/") < 0)
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

static int explain(struct pb_ctx *ctx, char *text, pid_t child)
{
    int status = 0;
    enum pb_code code = PB_FAIL;

    if (waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) < 6)
        code = (enum pb_code)WEXITSTATUS(status);
    text[strcspn(text, "\n")] = '\0';
    return pb_err_set(&ctx->err, code == PB_OK || code == PB_USAGE ? PB_FAIL : code, "%s",
                      strncmp(text, "probing: ", 9) == 0 ? text + 9
                      : *text                            ? text
                                                         : "the node ended at once");
}

int pb_nodelink_start(struct pb_ctx *ctx)
{
    struct pb_nodeplace place;
    char text[640];
    int report[2], rc;
    pid_t child;

    if (pb_nodeplace_find(&place, &ctx->err) < 0)
        return -1;
    if (pb_nodeplace_answers(place.socket))
        return 0;
    if (pipe2(report, O_CLOEXEC) < 0)
        return pb_err_set(&ctx->err, PB_FAIL, "pipe: %s", strerror(errno));
    child = fork();
    if (child == 0)
        become_node(&place, report[1]);
    close(report[1]);
    rc = child < 0 ? -1 : read_report(report[0], text, sizeof text);
    close(report[0]);
    if (child < 0)
        return pb_err_set(&ctx->err, PB_FAIL, "cannot start a node: %s", strerror(errno));
    if (rc < 0)
        return pb_err_set(&ctx->err, PB_TIMEOUT, "the node did not start in %d s; see %s",
                          START_TIMEOUT_MS / 1000, place.log);
    if (pb_nodeplace_answers(place.socket))
        return 0;
    return explain(ctx, text, child);
}

static int add_body(const void *data, size_t len, void *arg)
{
    pb_buf_add(arg, data, len);
    return 0;
}

/* One question to the node; the answer is an object in ctx->arena. */
static int ask(struct pb_ctx *ctx, const char *method, const char *path, const struct pb_buf *body,
               struct pb_json *ret)
{
    struct pb_http_request r = {.method = method, .path = path, .timeout_ms = ASK_TIMEOUT_MS,
                                .body = body ? body->data : NULL,
                                .body_len = body ? body->len : 0,
                                .type = body ? "application/json" : NULL};
    struct pb_http_client *http = NULL;
    struct pb_buf answer = PB_BUF_INIT;
    struct pb_nodeplace place;
    struct pb_http_where where = {.socket = place.socket};
    int status = 0, rc;

    if (pb_nodeplace_find(&place, &ctx->err) < 0 ||
        pb_http_connect(&http, &where, ASK_TIMEOUT_MS, &ctx->err) < 0)
        return -1;
    rc = pb_http_ask(http, &r, add_body, &answer, &status, &ctx->err);
    pb_http_close(http);
    if (rc == 0)
        rc = pb_json_parse(&ctx->arena, answer.data ? answer.data : "", answer.len, ret,
                           &ctx->err);
    pb_buf_finish(&answer);
    if (rc == 0 && status != 200)
        rc = pb_err_set(&ctx->err, PB_FAIL, "%s",
                        pb_json_str(pb_json_get(ret, "error"), "message", "the node refused"));
    return rc;
}

int pb_nodestart_listen(struct pb_ctx *ctx, const char *address, const char *owner, bool no_token,
                        const char **ret_bound)
{
    const char *token = NULL;
    struct pb_buf body = PB_BUF_INIT;
    struct pb_json answer;
    int rc;

    if (pb_nodelink_token(ctx, &token) < 0 || pb_nodelink_start(ctx) < 0)
        return -1;
    pb_buf_putc(&body, '{');
    pb_json_key(&body, "address");
    pb_json_string(&body, address);
    pb_json_key(&body, "owner");
    pb_json_string_or_null(&body, owner);
    pb_json_key(&body, "no_token");
    pb_json_bool(&body, no_token);
    if (token && *token) {
        pb_json_key(&body, "token");
        pb_json_string(&body, token);
    }
    pb_buf_putc(&body, '}');
    rc = ask(ctx, "POST", "/api/listen", &body, &answer);
    pb_buf_finish(&body);
    if (rc == 0)
        *ret_bound = pb_json_str(&answer, "listening", address);
    return rc;
}

static bool is_loopback(const char *bound)
{
    return strncmp(bound, "127.", 4) == 0 || strncmp(bound, "[::1]", 5) == 0;
}

/* The path as people write it. */
static const char *short_path(struct pb_ctx *ctx, const char *path)
{
    const char *home = getenv("HOME");
    size_t len = home ? strlen(home) : 0;

    if (len > 1 && strncmp(path, home, len) == 0 && path[len] == '/')
        return pb_arena_printf(&ctx->arena, "~%s", path + len);
    return path;
}

void pb_nodestart_say(struct pb_ctx *ctx, const char *bound, bool no_token)
{
    const char *given = NULL, *token;
    char path[PB_TOKEN_PATH_MAX];

    pb_print_f(&ctx->out, "Probing server listening on %s\n", bound);
    pb_print_flush(&ctx->out, NULL);
    pb_token_path(path);
    pb_nodelink_token(ctx, &given);
    token = no_token ? "no token: whoever reaches it may run code in the processes"
            : given  ? "token: the one it was opened with ($PROBING_TOKEN)"
                     : pb_arena_printf(&ctx->arena, "token: in %s; `probing token` shows it",
                                       short_path(ctx, path));
    pb_ctx_notice(ctx, pb_arena_printf(
                           &ctx->arena, "probing: %s%s", token,
                           is_loopback(bound) ? ""
                                              : "; no TLS, and other machines can reach it: across "
                                                "a network that is not yours, use ssh -L"));
}

int pb_nodestart_stop(struct pb_ctx *ctx)
{
    uint64_t deadline = pb_clock_ns() + STOP_TIMEOUT_MS * 1000000ull;
    struct pb_nodeplace place;
    struct pb_nodelock lock;
    int fd = -1, conn;
    pid_t peer = 0;

    if (pb_nodeplace_find(&place, &ctx->err) < 0)
        return -1;
    fd = open(place.lock, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) == 0) {
        if (fd >= 0)
            close(fd);
        return 1;
    }
    /* Whoever answers on the socket is it, whatever its version. */
    conn = connect_to(pb_nodelock_read(place.lock, &lock) ? lock.socket : place.socket, &peer);
    if (conn >= 0)
        close(conn);
    if (peer > 0)
        kill(peer, SIGTERM);
    while (flock(fd, LOCK_SH | LOCK_NB) < 0) {
        if (pb_clock_ns() > deadline) {
            close(fd);
            return pb_err_set(&ctx->err, PB_TIMEOUT, "the node does not end; see %s", place.log);
        }
        usleep(2000);
    }
    close(fd);
    return 0;
}
