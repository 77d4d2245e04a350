#include "node/http/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/text/alloc.h"
#include "host/os/signals.h"
#include "node/http/conn.h"

const struct pb_limits pb_server_limits = {
    .head = 10000,
    .idle = 30000,
    .body = 10000,
    .queue = 10000,
    .linger = 2000,
    .write = 30000,
    .local_write = 300000,
    .guess = 250,
    .guess_max = 4000,
};

/* Removes the name of the Unix socket, unless another node has taken it over. */
static void remove_name(const struct pb_server *s)
{
    struct stat now;

    if (s->path[0] && lstat(s->path, &now) == 0 && now.st_ino == s->path_was.st_ino &&
        now.st_dev == s->path_was.st_dev)
        unlink(s->path);
}

static int start(struct pb_server *s, struct pb_err *err)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = s};
    sigset_t before;
    int rc;

    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    s->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (s->epoll < 0 || s->wake < 0 || epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->wake, &e) < 0)
        return pb_err_set(err, PB_FAIL, "server: %s", strerror(errno));
    pb_signals_block(&before);
    rc = pthread_create(&s->thread, NULL, pb_server_loop, s);
    pb_signals_restore(&before);
    return rc ? pb_err_set(err, PB_FAIL, "server: no thread: %s", strerror(rc)) : 0;
}

static void release(struct pb_server *s)
{
    remove_name(s);
    for (int i = 0; i < PB_SERVER_LISTENERS; i++)
        pb_listener_close(&s->listeners[i]);
    if (s->epoll >= 0)
        close(s->epoll);
    if (s->wake >= 0)
        close(s->wake);
    pb_callers_finish(&s->callers);
    pb_tls_context_destroy(s->tls);
    pb_tickets_finish(&s->tickets);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

int pb_server_create_with(struct pb_server **ret, struct pb_node *node,
                          const struct pb_route *const *routes, const struct pb_limits *limits,
                          const char *socket_path, struct pb_err *err)
{
    struct pb_server *s = pb_alloc_resize(NULL, sizeof *s);

    memset(s, 0, sizeof *s);
    s->node = node;
    s->routes = routes;
    s->limits = *limits;
    s->epoll = s->wake = -1;
    for (int i = 0; i < PB_SERVER_LISTENERS; i++)
        s->listeners[i].fd = -1;
    pthread_mutex_init(&s->lock, NULL);
    pb_tickets_init(&s->tickets);
    gethostname(s->host, sizeof s->host - 1);
    atomic_store(&s->last_ns, pb_clock_ns());
    pb_listeners_inherit(s);
    if ((socket_path && pb_listener_open_unix(s, socket_path, err) < 0) || start(s, err) < 0) {
        release(s);
        return -1;
    }
    *ret = s;
    return 0;
}

int pb_server_create(struct pb_server **ret, struct pb_node *node, const char *socket_path,
                     struct pb_err *err)
{
    return pb_server_create_with(ret, node, pb_routes, &pb_server_limits, socket_path, err);
}

void pb_server_destroy(struct pb_server *s)
{
    if (!s)
        return;
    /* First the name: whoever comes now starts a node of its own. */
    remove_name(s);
    atomic_store(&s->stopping, true);
    pb_server_wake(s);
    pthread_join(s->thread, NULL);
    release(s);
}

int pb_server_ticket(struct pb_server *s, const char *scope, char ret_code[PB_TOKEN_MAX],
                     struct pb_err *err)
{
    enum pb_right right = PB_RIGHT_CONTROL;
    char own[PB_TOKEN_MAX], hash[PB_SHA256_TEXT];

    while (scope && right > PB_RIGHT_READ && strcmp(scope, pb_right_name(right)) != 0)
        right--;
    if (pb_token_own(own, sizeof own, true, err) < 0)
        return -1;
    pb_sha256_text(own, strlen(own), hash);
    explicit_bzero(own, sizeof own);
    return pb_tickets_add(&s->tickets, hash, right, pb_clock_ns(), ret_code, err);
}

void pb_server_activity(struct pb_server *s, int *ret_active, uint64_t *ret_last_ns,
                        int *ret_listeners)
{
    int n = 0;

    pthread_mutex_lock(&s->lock);
    for (int i = 1; i < PB_SERVER_LISTENERS; i++)
        n += s->listeners[i].fd >= 0 && !s->listeners[i].brief;
    pthread_mutex_unlock(&s->lock);
    *ret_active = atomic_load(&s->active);
    *ret_last_ns = atomic_load(&s->last_ns);
    *ret_listeners = n;
}
