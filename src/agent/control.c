#include "agent/control.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/collectors/collect.h"
#include "agent/core/gil_tasks.h"
#include "agent/jobs.h"
#include "agent/lifecycle.h"
#include "agent/outbox.h"
#include "agent/requests.h"
#include "agent/tracer.h"
#include "base/clock.h"
#include "base/pages.h"

#define BACKLOG 16
#define NEW_NAME "/new"
#define FULL_SWEEP 16
#define MS 1000000
#define LONGEST_MS 60000
#define LONGEST_NS ((uint64_t)LONGEST_MS * MS)

/* The number is forgotten first: a fork in between must not close somebody else's file. */
static void close_fd(int *fd)
{
    int old = *fd;

    *fd = -1;
    if (old >= 0)
        close(old);
}

static void close_wake(struct pb_self *self)
{
    pthread_mutex_lock(&self->wake_lock);
    close_fd(&self->wake);
    pthread_mutex_unlock(&self->wake_lock);
}

/*
 * The socket appears under its name only when it listens, so that a name that
 * refuses connections is always one that nobody will ever listen on again.
 */
static int listen_at(const char *home)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char name[PB_HOME_MAX + sizeof "/" PB_HOME_SOCKET];
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int rc;

    if (fd < 0)
        return -errno;
    snprintf(at.sun_path, sizeof at.sun_path, "%s" NEW_NAME, home);
    snprintf(name, sizeof name, "%s/" PB_HOME_SOCKET, home);
    unlink(at.sun_path);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, BACKLOG) == 0 &&
        rename(at.sun_path, name) == 0)
        return fd;
    rc = -errno;
    unlink(at.sun_path);
    close(fd);
    return rc;
}

static int open_in(struct pb_self *self, const char *root)
{
    struct pb_home_keep keep = {pb_self_setting(self, PB_SET_STORE_KEEP_HOURS) * 3600,
                                pb_self_setting(self, PB_SET_STORE_KEEP) << 20};
    uint64_t start = pb_home_start_time(0);
    int folder, fd;

    /* A node looks more often; where none runs, every so many starts will do. */
    pb_home_sweep(root, geteuid(), start % FULL_SWEEP == 0 ? &keep : NULL);
    folder = pb_home_create(self->home, root, geteuid(), self->pid, start);
    if (folder < 0)
        return folder;
    close(folder);
    /* Only now is it sure to be our own folder and not somebody's trap. */
    if (pb_home_answers(self->home))
        return -EALREADY;
    fd = listen_at(self->home);
    if (fd < 0)
        pb_home_remove(self->home);
    return fd;
}

int pb_control_open(struct pb_self *self)
{
    int rc = -ENOENT, wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    if (wake < 0)
        return -errno;
    pthread_mutex_lock(&self->wake_lock);
    self->wake = wake;
    pthread_mutex_unlock(&self->wake_lock);
    for (size_t i = 0; pb_home_roots[i]; i++) {
        rc = open_in(self, pb_home_roots[i]);
        if (rc >= 0 || rc == -EALREADY)
            break;
    }
    self->server->listener = rc >= 0 ? rc : -1;
    if (rc >= 0)
        return 0;
    self->home[0] = '\0';
    close_wake(self);
    return rc;
}

static void free_buffers(struct pb_client *c)
{
    pb_pages_free(c->in.body, c->body_size);
    pb_pages_free(c->out.data, PB_OUTBOX);
    c->in.body = NULL;
    c->body_size = 0;
    c->out = (struct pb_outbox){0};
    pb_wire_next(&c->in);
}

static void drop_client(struct pb_self *self, struct pb_client *c)
{
    bool session = c->has_session;

    pb_jobs_abandon(self, c);
    pthread_mutex_lock(&self->lock);
    if (session && self->server->left_count < PB_CLIENTS)
        self->server->left[self->server->left_count++] = c->serial;
    close_fd(&c->fd);
    free_buffers(c);
    pthread_mutex_unlock(&self->lock);
    if (session)
        pb_gil_task_add(self, PB_GIL_TASK_FORGET);
}

/* A free place, if need be that of the client that has been silent for longest. */
static struct pb_client *find_client_slot(struct pb_self *self)
{
    struct pb_client *oldest = NULL;

    for (int i = 0; i < PB_CLIENTS; i++) {
        struct pb_client *c = &self->server->clients[i];

        if (c->fd < 0)
            return c;
        /* One that waits for its evaluation is silent for a good reason. */
        if (!pb_jobs_of(self, c) && (!oldest || c->seen_ns < oldest->seen_ns))
            oldest = c;
    }
    if (oldest)
        drop_client(self, oldest);
    return oldest;
}

static bool is_allowed(int fd, struct ucred *who)
{
    socklen_t len = sizeof *who;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, who, &len) == 0 &&
           (who->uid == geteuid() || who->uid == 0);
}

static void accept_client(struct pb_self *self)
{
    int fd = accept4(self->server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct pb_client *c;
    struct ucred who;
    void *data;

    if (fd < 0)
        return;
    c = is_allowed(fd, &who) ? find_client_slot(self) : NULL;
    data = c ? pb_pages_get(PB_OUTBOX) : NULL;
    if (!data) {
        close(fd);
        return;
    }
    pthread_mutex_lock(&self->lock);
    *c = (struct pb_client){.fd = fd, .serial = ++self->server->serial, .seen_ns = pb_clock_ns(),
                            .uid = who.uid, .pid = who.pid, .out = {.data = data}};
    pthread_mutex_unlock(&self->lock);
    pb_tracer_allow(self, who.pid); /* before hello, which says that it is done */
    pb_requests_hello(self, c);
}

/* Reads one message, or as much of it as there is. False when the client is to be closed. */
static bool read_client(struct pb_self *self, struct pb_client *c)
{
    for (;;) {
        size_t len;
        void *to = pb_wire_buffer(&c->in, &len);
        ssize_t n = read(c->fd, to, len);
        enum pb_wire_step step;

        if (n == 0)
            return false;
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        c->seen_ns = pb_clock_ns();
        step = pb_wire_received(&c->in, (size_t)n, true);
        if (step == PB_WIRE_BAD)
            return false;
        if (step == PB_WIRE_BODY) {
            c->body_size = c->in.head.len;
            c->in.body = pb_pages_get(c->body_size);
            if (!c->in.body)
                return false;
        }
        if (step == PB_WIRE_MESSAGE) {
            pb_requests_handle(self, c);
            pb_pages_free(c->in.body, c->body_size);
            c->body_size = 0;
            pb_wire_next(&c->in);
            return true; /* the others have their turn first */
        }
    }
}

static void serve_client(struct pb_self *self, struct pb_client *c, short events)
{
    bool gone = false;

    if (events & (POLLIN | POLLHUP | POLLERR) && !c->leaving)
        gone = !read_client(self, c);
    pthread_mutex_lock(&self->lock);
    gone |= c->gone || !pb_outbox_send(&c->out, c->fd);
    pthread_mutex_unlock(&self->lock);
    if (gone)
        drop_client(self, c);
}

/* Fills the list for poll: wake, listener, clients; returns its length. */
static nfds_t poll_list(struct pb_self *self, struct pollfd *v, struct pb_client **who)
{
    nfds_t n = 0;

    v[n++] = (struct pollfd){.fd = self->wake, .events = POLLIN};
    v[n++] = (struct pollfd){.fd = self->server->listener, .events = POLLIN};
    pthread_mutex_lock(&self->lock);
    for (int i = 0; i < PB_CLIENTS; i++) {
        struct pb_client *c = &self->server->clients[i];

        if (c->fd < 0)
            continue;
        who[n] = c;
        v[n++] = (struct pollfd){.fd = c->fd,
                                 .events = (short)(POLLIN | (c->out.len ? POLLOUT : 0))};
    }
    pthread_mutex_unlock(&self->lock);
    return n;
}

static void drain_wake(struct pb_self *self)
{
    uint64_t count;
    ssize_t n = read(self->wake, &count, sizeof count);

    (void)n;
}

/* Tells those who asked for it that the agent is gone, as far as they listen. */
static void announce_end(struct pb_self *self)
{
    for (int i = 0; i < PB_CLIENTS; i++) {
        struct pb_client *c = &self->server->clients[i];

        if (c->fd >= 0 && c->leaving)
            pb_jobs_answer(self, c, c->eject_id, PB_WIRE_OK, "");
        pthread_mutex_lock(&self->lock);
        if (c->fd >= 0)
            pb_outbox_send(&c->out, c->fd);
        close_fd(&c->fd);
        free_buffers(c);
        pthread_mutex_unlock(&self->lock);
    }
}

/* Milliseconds until the next thing is due, -1 for none. */
static int tick(struct pb_self *self)
{
    uint64_t now = pb_clock_ns(), next;
    int ms = pb_jobs_tick(self), due;

    pb_collect_tick(self, now);
    next = pb_collect_next_ns(self);
    if (next == UINT64_MAX)
        return ms;
    due = next <= now ? 0 : next - now > LONGEST_NS ? LONGEST_MS : (int)((next - now) / MS) + 1;
    return ms < 0 || due < ms ? due : ms;
}

void pb_control_serve(struct pb_self *self)
{
    struct pollfd v[PB_CLIENTS + 2];
    struct pb_client *who[PB_CLIENTS + 2];

    while (!self->stop_wanted) {
        int timeout = tick(self);
        nfds_t n = poll_list(self, v, who);

        if (poll(v, n, timeout) < 0 && errno != EINTR)
            break;
        if (v[0].revents)
            drain_wake(self);
        for (nfds_t i = 2; i < n; i++)
            serve_client(self, who[i], v[i].revents);
        if (v[1].revents)
            accept_client(self);
    }
    close_fd(&self->server->listener);
    pb_requests_leave(self);
    pb_collect_stop(self, "ejected");
    pb_lifecycle_remove_home(self);
    announce_end(self);
    close_wake(self);
}

void pb_control_close(struct pb_self *self)
{
    close_fd(&self->server->listener);
    close_wake(self);
    for (int i = 0; i < PB_CLIENTS; i++) {
        close_fd(&self->server->clients[i].fd);
        free_buffers(&self->server->clients[i]);
    }
}
