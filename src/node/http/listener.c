#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/text/alloc.h"
#include "host/process/proc.h"
#include "node/http/conn.h"
#include "node/http/server.h"
#include "node/parts.h"
#include "node/watchdog/keeper.h"

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

/*
 * Hands a listener to the supervisor for the next server: the slot as it is, then its owners.
 * Called with the server's lock held.
 */
static void save_listener(struct pb_server *s, const struct pb_listener *l)
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

/* Called with s->lock held. The keeper has a copy of the socket, which must go, too. */
static void close_listener(struct pb_server *s, int slot)
{
    epoll_ctl(s->epoll, EPOLL_CTL_DEL, s->listeners[slot].fd, NULL);
    pb_listener_close(&s->listeners[slot]);
    if (s->node)
        pb_keeper_drop(s->node->opts.keeper, slot);
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
        if (kept == 0)
            close_listener(s, i);
    }
    return owned;
}

void pb_server_close(struct pb_server *s, const char *bound)
{
    pthread_mutex_lock(&s->lock);
    for (int i = 1; i < PB_SERVER_LISTENERS; i++) {
        struct pb_listener *l = &s->listeners[i];
        size_t kept = 0;

        if (l->fd < 0 || strcmp(l->bound, bound) != 0)
            continue;
        for (size_t k = 0; k < l->nowners; k++)
            if (l->owners[k].id[0])
                l->owners[kept++] = l->owners[k];
        l->nowners = kept;
        if (!kept)
            close_listener(s, i);
    }
    pthread_mutex_unlock(&s->lock);
    pb_server_wake(s);
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

/*
 * The owners that the caller reaches; NULL when the node itself is among them. Called with the
 * server's lock held.
 */
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
    return pb_arena_strdup(a, !list || pb_http_lists(list, who->reach) ? who->reach : "");
}

bool pb_listener_key(struct pb_server *s, const struct pb_listener *l, const char *id,
                     struct pb_key *ret, char ret_hash[PB_SHA256_TEXT])
{
    bool found = pb_callers_key(&s->callers, id, ret, ret_hash);

    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < l->nowners && !found; i++)
        if (l->owners[i].hash[0] && strcmp(l->owners[i].key.id, id) == 0) {
            *ret = l->owners[i].key;
            strcpy(ret_hash, l->owners[i].hash);
            found = true;
        }
    pthread_mutex_unlock(&s->lock);
    return found;
}

bool pb_listener_accepts(struct pb_server *s, const struct pb_listener *l,
                         const char hash[PB_SHA256_TEXT], struct pb_caller *ret)
{
    bool good = false;

    *ret = (struct pb_caller){.right = PB_RIGHT_CONTROL};
    good = pb_callers_identify(&s->callers, hash, ret);
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

/* The listener that is at this address or covers it. Called with the server's lock held. */
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

/*
 * A page's own listener that is there already, for an address at whichever port is free. Called
 * with the server's lock held.
 */
static struct pb_listener *find_brief(struct pb_server *s, const char *text)
{
    size_t host = strlen(text) - 2;

    if (strcmp(text + host, ":0") != 0)
        return NULL;
    for (int i = 1; i < PB_SERVER_LISTENERS; i++)
        if (s->listeners[i].fd >= 0 && s->listeners[i].brief &&
            strncmp(s->listeners[i].bound, text, host + 1) == 0)
            return &s->listeners[i];
    return NULL;
}

/*
 * Opens a listener in a free slot, one whose last connection is gone. Called with the server's
 * lock held.
 */
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
    l->fd = pb_address_bind(at, len, text, err);
    if (l->fd < 0)
        return NULL;
    l->tcp = true;
    getsockname(l->fd, (struct sockaddr *)&bound, &size);
    pb_address_text(&bound, l->bound, sizeof l->bound);
    return l;
}

/* Called with the server's lock held. */
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
    return pb_key_of_token(&o->key, w->token, err);
}

static int check_certificate(const struct pb_listen *w, struct pb_err *err)
{
    if (!w->cert && !w->cert_key)
        return 0;
    if (!w->cert || !w->cert_key)
        return pb_err_set(err, PB_USAGE, "a certificate and its key go together");
    if (strlen(w->cert) >= PB_CERT_PATH || strlen(w->cert_key) >= PB_CERT_PATH)
        return pb_err_set(err, PB_USAGE, "the path of the certificate is too long");
    return pb_handshake_check(w->cert, w->cert_key, err);
}

/* Called with s->lock held. */
static void set_security(struct pb_server *s, struct pb_listener *l, const struct pb_listen *w)
{
    l->plain |= w->plain;
    if (!w->cert)
        return;
    strcpy(l->cert, w->cert);
    strcpy(l->cert_key, w->cert_key);
    atomic_store(&s->new_certificate, true);
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

    if (read_owner(&owner, w, err) < 0 || check_certificate(w, err) < 0 ||
        pb_listener_check_name(w->name, err) < 0 ||
        pb_address_resolve(w->address, host, &at, &len, err) < 0)
        return -1;
    pb_address_text(&at, text, sizeof text);
    pthread_mutex_lock(&s->lock);
    l = w->brief ? find_brief(s, text) : NULL;
    if (!l)
        l = find(s, text);
    if (l && l->no_token != w->no_token) {
        pb_err_set(err, PB_FAIL, "%s: is open already, %s a token", l->bound,
                   l->no_token ? "without" : "with");
    } else {
        if (!l)
            l = open_new(s, &at, len, text, err);
        if (l && !l->nowners) {
            l->no_token = w->no_token;
            l->plain = false;
            l->cert[0] = l->names[0] = '\0';
            l->brief = true;
            memcpy(l->host, host, sizeof l->host);
        }
        if (l)
            set_security(s, l, w);
        if (l && w->name)
            pb_listener_add_name(l, w->name);
        rc = l ? add_owner(l, &owner, err) : -1;
        if (l)
            l->brief &= w->brief;
    }
    if (rc == 0) {
        snprintf(ret_bound, cap, "%s", l->bound);
        save_listener(s, l);
    }
    pthread_mutex_unlock(&s->lock);
    pb_server_wake(s);
    return rc;
}
