#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "host/alloc.h"
#include "host/http_dial.h"
#include "host/proc.h"
#include "node/http/conn.h"
#include "node/http/server.h"
#include "node/keeper.h"
#include "node/node.h"

#define BACKLOG 256

void pb_listener_close(struct pb_listener *l)
{
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
    l->armed = false;
    free(l->owners);
    l->owners = NULL;
    l->nowners = 0;
}

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

int pb_listener_open_unix(struct pb_server *s, const char *path, struct pb_err *err)
{
    const void *state;
    size_t len;
    int fd = s->node ? pb_keeper_get(s->node->opts.keeper, 0, &state, &len) : -1;

    if (fd < 0)
        fd = pb_server_bind(path, err);
    if (fd < 0)
        return -1;
    s->listeners[0].fd = fd;
    if (lstat(path, &s->path_was) < 0)
        return pb_err_set(err, PB_FAIL, "%s: %s", path, strerror(errno));
    memcpy(s->path, path, strlen(path) + 1);
    return 0;
}

/* A listener as the next server needs it: the slot as it is, then its owners. Under lock. */
static void keep(struct pb_server *s, const struct pb_listener *l)
{
    struct pb_keeper *k = s->node ? s->node->opts.keeper : NULL;
    struct pb_buf b = PB_BUF_INIT;

    if (!k)
        return;
    pb_buf_add(&b, l, sizeof *l);
    pb_buf_add(&b, l->owners, l->nowners * sizeof *l->owners);
    pb_keeper_put(k, (int)(l - s->listeners), l->fd, b.data, b.len);
    pb_buf_finish(&b);
}

void pb_listeners_inherit(struct pb_server *s)
{
    for (int i = 1; s->node && i < PB_SERVER_LISTENERS && i < PB_KEEPER_SLOTS; i++) {
        struct pb_listener *l = &s->listeners[i], was;
        const void *state;
        size_t len;
        int fd = pb_keeper_get(s->node->opts.keeper, i, &state, &len);

        if (fd < 0 || len < sizeof was)
            continue;
        memcpy(&was, state, sizeof was);
        if (len != sizeof was + was.nowners * sizeof *was.owners)
            continue;
        was.fd = fd;
        was.armed = false;
        atomic_init(&was.conns, 0);
        was.owners = pb_alloc_resize(NULL, len - sizeof was + 1);
        memcpy(was.owners, (const char *)state + sizeof was, len - sizeof was);
        *l = was;
    }
}

/* An owner that is the process it was; one that waits for its parent to look is not. */
static bool is_alive(const char *id)
{
    struct pb_proc_stat stat;
    unsigned long long start;
    int pid;

    return sscanf(id, "%d-%llu", &pid, &start) == 2 && pb_proc_stat(&stat, pid, 0, NULL) == 0 &&
           stat.start_time == start && stat.state != 'Z' && stat.state != 'X';
}

bool pb_listeners_review(struct pb_server *s)
{
    bool owned = false;

    for (int i = 1; i < PB_SERVER_LISTENERS; i++) {
        struct pb_listener *l = &s->listeners[i];
        size_t kept = 0;

        if (l->fd < 0)
            continue;
        for (size_t k = 0; k < l->nowners; k++)
            if (!l->owners[k].id[0] || is_alive(l->owners[k].id)) {
                owned |= l->owners[k].id[0] != '\0';
                l->owners[kept++] = l->owners[k];
            }
        l->nowners = kept;
        if (kept == 0) {
            /* The keeper's copy would keep it there. */
            epoll_ctl(s->epoll, EPOLL_CTL_DEL, l->fd, NULL);
            pb_listener_close(l);
            if (s->node)
                pb_keeper_drop(s->node->opts.keeper, i);
        }
    }
    return owned;
}

static void address_text(const struct sockaddr *at, socklen_t len, char *buf, size_t cap)
{
    char host[128] = "", port[16] = "";

    getnameinfo(at, len, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(buf, cap, at->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

/* Is this owner one that the caller's token opens the port for? */
static bool opens(const struct pb_caller *who, const struct pb_owner *o)
{
    switch (who->kind) {
    case PB_CALLER_PORT:
        return o->hash[0] && pb_sha256_same(who->hash, o->hash);
    case PB_CALLER_OWN:
        return !o->hash[0];
    default:
        return true;
    }
}

/* Under lock: the owners that the caller reaches; NULL when the node itself is among them. */
static char *owners_for(const struct pb_listener *l, const struct pb_caller *who,
                        struct pb_arena *a)
{
    char *list = pb_arena_strdup(a, "");

    for (size_t i = 0; i < l->nowners; i++) {
        if (!opens(who, &l->owners[i]))
            continue;
        if (!l->owners[i].id[0])
            return NULL;
        list = pb_arena_printf(a, "%s%s%s", list, *list ? "," : "", l->owners[i].id);
    }
    return list;
}

static bool is_listed(const char *list, const char *id)
{
    size_t len = strlen(id);

    for (; *list; list += strcspn(list, ","), list += *list == ',')
        if (strcspn(list, ",") == len && memcmp(list, id, len) == 0)
            return true;
    return false;
}

char *pb_listener_reach(struct pb_server *s, const struct pb_listener *l,
                        const struct pb_caller *who, struct pb_arena *a)
{
    char *list;

    if (!l->tcp)
        return NULL;
    pthread_mutex_lock(&s->lock);
    list = owners_for(l, who, a);
    pthread_mutex_unlock(&s->lock);
    if (!who->reach[0])
        return list;
    return pb_arena_strdup(a, !list || is_listed(list, who->reach) ? who->reach : "");
}

bool pb_listener_accepts(struct pb_server *s, const struct pb_listener *l, const char *token,
                         struct pb_caller *ret)
{
    char hash[PB_SHA256_TEXT];
    bool good = false;

    pb_sha256_text(token, strlen(token), hash);
    *ret = (struct pb_caller){.right = PB_RIGHT_CONTROL};
    good = pb_callers_know(&s->callers, hash, ret);
    strcpy(ret->hash, hash);
    if (good && ret->kind == PB_CALLER_NAMED)
        return true;
    pthread_mutex_lock(&s->lock);
    if (good) {
        good = false;
        for (size_t i = 0; i < l->nowners; i++)
            good |= !l->owners[i].hash[0];
    }
    for (size_t i = 0; i < l->nowners && !good; i++)
        if (l->owners[i].hash[0] && pb_sha256_same(hash, l->owners[i].hash)) {
            *ret = (struct pb_caller){.kind = PB_CALLER_PORT, .right = PB_RIGHT_CONTROL,
                                      .token = "of the port"};
            strcpy(ret->hash, hash);
            good = true;
        }
    pthread_mutex_unlock(&s->lock);
    return good;
}

void pb_address_text(const struct sockaddr_storage *at, char *buf, size_t cap)
{
    address_text((const struct sockaddr *)at, sizeof *at, buf, cap);
}

/* The address to bind to: the first of the fourth version, else the first. */
static int resolve(const char *address, char *host, struct sockaddr_storage *ret,
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

static int bind_tcp(const struct sockaddr_storage *at, socklen_t len, const char *text,
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

/* Under lock: the listener that is this address already, or whose address covers it. */
static struct pb_listener *find(struct pb_server *s, const char *text)
{
    const char *port = strrchr(text, ':');
    char all[32];

    snprintf(all, sizeof all, "%s%.6s", *text == '[' ? "[::]" : "0.0.0.0", port);
    for (int i = 1; i < PB_SERVER_LISTENERS; i++)
        if (s->listeners[i].fd >= 0 && strcmp(port, ":0") != 0 &&
            (strcmp(s->listeners[i].bound, text) == 0 || strcmp(s->listeners[i].bound, all) == 0))
            return &s->listeners[i];
    return NULL;
}

/* Under lock. A slot is free again when the last connection it accepted is gone. */
static struct pb_listener *open_new(struct pb_server *s, const struct sockaddr_storage *at,
                                    socklen_t len, const char *text, struct pb_err *err)
{
    struct pb_listener *l = NULL;
    struct sockaddr_storage bound;
    socklen_t size = sizeof bound;

    for (int i = 1; i < PB_SERVER_LISTENERS && !l; i++)
        if (s->listeners[i].fd < 0 && atomic_load(&s->listeners[i].conns) == 0)
            l = &s->listeners[i];
    if (!l) {
        pb_err_set(err, PB_FAIL, "%s: this node listens at %d addresses already", text,
                   PB_SERVER_LISTENERS - 1);
        return NULL;
    }
    l->fd = bind_tcp(at, len, text, err);
    if (l->fd < 0)
        return NULL;
    l->tcp = true;
    getsockname(l->fd, (struct sockaddr *)&bound, &size);
    address_text((struct sockaddr *)&bound, size, l->bound, sizeof l->bound);
    return l;
}

/* Under lock. */
static int add_owner(struct pb_listener *l, const struct pb_owner *o, struct pb_err *err)
{
    for (size_t i = 0; i < l->nowners; i++)
        if (strcmp(l->owners[i].id, o->id) == 0) {
            l->owners[i] = *o;
            return 0;
        }
    if (l->nowners == PB_LISTENER_OWNERS)
        return pb_err_set(err, PB_FAIL, "%s: too many processes share this port", l->bound);
    l->owners = pb_alloc_resize(l->owners, (l->nowners + 1) * sizeof *l->owners);
    l->owners[l->nowners++] = *o;
    return 0;
}

static int read_owner(struct pb_owner *o, const struct pb_listen *w, struct pb_err *err)
{
    char own[PB_TOKEN_MAX];

    *o = (struct pb_owner){0};
    if (w->owner && *w->owner) {
        if (strlen(w->owner) >= sizeof o->id || !is_alive(w->owner))
            return pb_err_set(err, PB_NO_TARGET, "%.60s: no such process", w->owner);
        strcpy(o->id, w->owner);
    }
    if (w->no_token)
        return 0;
    if (!w->token || !*w->token)
        return pb_token_own(own, sizeof own, true, err);
    if (pb_token_check(w->token, err) < 0)
        return -1;
    pb_sha256_text(w->token, strlen(w->token), o->hash);
    return 0;
}

int pb_server_open(struct pb_server *s, const struct pb_listen *w, char *ret_bound, size_t cap,
                   struct pb_err *err)
{
    struct sockaddr_storage at = {0};
    char host[PB_HTTP_NAME_MAX], text[PB_HTTP_NAME_MAX + 8];
    struct pb_listener *l;
    struct pb_owner owner;
    socklen_t len = 0;
    int rc = -1;

    if (read_owner(&owner, w, err) < 0 || resolve(w->address, host, &at, &len, err) < 0)
        return -1;
    address_text((struct sockaddr *)&at, len, text, sizeof text);
    pthread_mutex_lock(&s->lock);
    l = find(s, text);
    if (l && l->no_token != w->no_token) {
        pb_err_set(err, PB_FAIL, "%s: is open already, %s a token", l->bound,
                   l->no_token ? "without" : "with");
    } else {
        if (!l)
            l = open_new(s, &at, len, text, err);
        if (l && !l->nowners) {
            l->no_token = w->no_token;
            memcpy(l->host, host, sizeof l->host);
        }
        rc = l ? add_owner(l, &owner, err) : -1;
    }
    if (rc == 0) {
        snprintf(ret_bound, cap, "%s", l->bound);
        keep(s, l);
    }
    pthread_mutex_unlock(&s->lock);
    pb_server_wake(s);
    return rc;
}
