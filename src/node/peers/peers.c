#include "node/peers/peers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "host/text/alloc.h"
#include "host/net/http.h"
#include "host/text/json_write.h"
#include "host/os/signals.h"
#include "node/peers/internal.h"

#define NS_PER_MS 1000000ull
#define SEED_MS 4000
#define PROBE_MS 5000
#define DEFAULT_NAME "default"

struct pb_peers *pb_peers_create(const struct pb_peers_opts *o)
{
    struct pb_peers *p = pb_alloc_resize(NULL, sizeof *p);
    pthread_condattr_t attr;

    memset(p, 0, sizeof *p);
    p->opts = *o;
    pthread_mutex_init(&p->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&p->wake, &attr);
    pthread_condattr_destroy(&attr);
    return p;
}

static void stop_thread(struct pb_peers *p)
{
    pthread_t thread;
    bool was;

    pthread_mutex_lock(&p->lock);
    was = p->running;
    thread = p->thread;
    p->running = false;
    p->stopping = true;
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
    if (was)
        pthread_join(thread, NULL);
    p->stopping = false;
}

/* With nobody else at it: as if it had never been attached. */
static void reset(struct pb_peers *p)
{
    pthread_mutex_lock(&p->lock);
    pb_members_finish(&p->members);
    free(p->order);
    p->order = NULL;
    p->norder = p->turn = p->nseeds = 0;
    p->attached = p->observer = p->resuming = p->lost = false;
    p->bound[0] = p->name[0] = '\0';
    p->port = 0;
    p->saved_ns = p->digest_ns = p->jobs_ns = p->gone_ns = 0;
    p->saved = 0;
    explicit_bzero(p->token, sizeof p->token);
    explicit_bzero(&p->key, sizeof p->key);
    pthread_mutex_unlock(&p->lock);
}

void pb_peers_destroy(struct pb_peers *p)
{
    if (!p)
        return;
    stop_thread(p);
    if (p->attached && !p->observer)
        pb_peers_say_goodbye(p);
    reset(p);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

bool pb_peers_refresh_key(struct pb_peers *p)
{
    uint64_t stamp = p->token[0] ? 1 : pb_tokens_stamp();
    char own[PB_TOKEN_MAX];
    int rc;

    if (p->stamp && stamp == p->stamp)
        return true;
    if (p->token[0]) {
        rc = pb_key_of_token(&p->key, p->token, NULL);
    } else {
        rc = pb_token_own(own, sizeof own, true, NULL);
        if (rc == 0)
            rc = pb_key_of_token(&p->key, own, NULL);
        explicit_bzero(own, sizeof own);
    }
    p->stamp = rc == 0 ? (p->token[0] ? 1 : pb_tokens_stamp()) : 0;
    return rc == 0;
}

bool pb_peers_key(struct pb_peers *p, struct pb_key *ret)
{
    bool there;

    pthread_mutex_lock(&p->lock);
    there = p->attached && p->stamp;
    *ret = p->key;
    pthread_mutex_unlock(&p->lock);
    return there;
}

void pb_peers_token(struct pb_peers *p, char ret[PB_TOKEN_MAX])
{
    ret[0] = '\0';
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    if (p->attached)
        snprintf(ret, PB_TOKEN_MAX, "%s", p->token);
    pthread_mutex_unlock(&p->lock);
}

const char *pb_member_address(const struct pb_member *one)
{
    return one->via[0] ? one->via : one->nat ? one->at[0] : "";
}

void pb_peers_heard(struct pb_peers *p, const char *id, const char *address,
                    const struct pb_err *err)
{
    struct pb_member *it;

    pthread_mutex_lock(&p->lock);
    it = pb_members_find(&p->members, id);
    if (it && !err) {
        it->heard_ns = pb_clock_ns();
        it->reason[0] = '\0';
        snprintf(it->via, sizeof it->via, "%s", address);
    } else if (it) {
        snprintf(it->reason, sizeof it->reason, "%.119s", err->msg);
        if (strcmp(it->via, address) == 0)
            it->via[0] = '\0';
    }
    pthread_mutex_unlock(&p->lock);
}

static void describe_self(struct pb_peers *p, struct pb_member *self)
{
    unsigned char bytes[PB_MEMBER_ID / 2];

    *self = (struct pb_member){.generation = (uint64_t)pb_clock_wall_ns() / NS_PER_MS,
                               .version = 1, .protocol = PB_GOSSIP_PROTOCOL};
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        memcpy(bytes, &self->generation, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(self->id + 2 * i, 3, "%02x", bytes[i]);
    snprintf(self->host, sizeof self->host, "%s", p->opts.host);
    snprintf(self->software, sizeof self->software, "%s", p->opts.version);
    self->since_ns = self->heard_ns = pb_clock_ns();
}

/* The first free one of a few ports, unless an address was named. */
static int open_port(struct pb_peers *p, const struct pb_peers_port *port,
                     const struct pb_peers_attach *w, struct pb_err *err)
{
    int first = (int)atomic_load(p->opts.port);
    char address[64], bound[sizeof p->bound], host[PB_HTTP_NAME_MAX], number[8];
    int rc = -1;

    for (int i = 0; i < (w->address ? 1 : PB_MEMBER_PORTS) && rc < 0; i++) {
        snprintf(address, sizeof address, "0.0.0.0:%d", first + i);
        *err = (struct pb_err){0};
        rc = port->open(port->arg, w->address ? w->address : address, w->token, bound,
                        sizeof bound, err);
    }
    if (rc < 0 || pb_http_split(bound, host, number, err) < 0)
        return -1;
    pthread_mutex_lock(&p->lock);
    memcpy(p->bound, bound, sizeof p->bound);
    p->port = atoi(number);
    pthread_mutex_unlock(&p->lock);
    return 0;
}

static int check_name(const char *name, struct pb_err *err)
{
    if (!*name || strlen(name) >= PB_GOSSIP_NAME)
        return pb_err_set(err, PB_USAGE, "a cluster's name has 1 to %d characters",
                          PB_GOSSIP_NAME - 1);
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c <= 0x20 || *c == 0x7f)
            return pb_err_set(err, PB_USAGE, "a cluster's name has no blanks in it");
    return 0;
}

/* Becomes a member of a cluster of one. */
static int begin(struct pb_peers *p, const struct pb_peers_port *port,
                 const struct pb_peers_attach *w, const char *name, struct pb_err *err)
{
    struct pb_member self;
    bool has_key;

    if (check_name(name, err) < 0 || (w->token && pb_token_check(w->token, err) < 0) ||
        (!w->observe && open_port(p, port, w, err) < 0))
        return -1;
    pthread_mutex_lock(&p->lock);
    snprintf(p->token, sizeof p->token, "%s", w->token ? w->token : "");
    snprintf(p->name, sizeof p->name, "%s", name);
    p->stamp = 0;
    has_key = pb_peers_refresh_key(p);
    p->observer = w->observe;
    if (has_key && !w->observe) {
        describe_self(p, &self);
        pb_members_set_self(&p->members, &self);
    }
    p->attached = has_key;
    pthread_mutex_unlock(&p->lock);
    return has_key ? 0 : pb_err_set(err, PB_FAIL, "no key can be made of the token");
}

static int start_thread(struct pb_peers *p, struct pb_err *err)
{
    sigset_t before;
    int rc = 0;

    pthread_mutex_lock(&p->lock);
    if (!p->running) {
        pb_signals_block(&before);
        rc = pthread_create(&p->thread, NULL, pb_peers_rounds, p);
        pb_signals_restore(&before);
        p->running = rc == 0;
    }
    pthread_mutex_unlock(&p->lock);
    return rc ? pb_err_set(err, PB_FAIL, "no thread: %s", strerror(rc)) : 0;
}

static void remember_seed(struct pb_peers *p, const char *address)
{
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < p->nseeds; i++)
        if (strcmp(p->seeds[i], address) == 0)
            address = "";
    if (*address && strlen(address) < PB_MEMBER_ADDRESS && p->nseeds < PB_PEERS_SEEDS)
        strcpy(p->seeds[p->nseeds++], address);
    pthread_mutex_unlock(&p->lock);
}

/* Talks to all seeds at once, and with the first that answered once more: it knows us by then. */
static void meet_seeds(struct pb_peers *p, const struct pb_peers_attach *w,
                       struct pb_peers_seed *ret)
{
    const char *first = NULL;

    pb_peers_meet(p, w->seeds, w->nseeds, SEED_MS, ret);
    for (size_t i = 0; i < w->nseeds; i++) {
        if (ret[i].err.code != PB_OK)
            continue;
        remember_seed(p, w->seeds[i]);
        first = first ? first : w->seeds[i];
    }
    if (first)
        pb_peers_exchange(p, first, NULL, SEED_MS, NULL, NULL);
}

void pb_peers_meet_saved(struct pb_peers *p)
{
    char(*at)[PB_MEMBER_ADDRESS] = pb_alloc_resize(NULL, sizeof p->seeds);
    const char *seeds[PB_PEERS_SEEDS];
    struct pb_peers_seed *met = pb_alloc_resize(NULL, PB_PEERS_SEEDS * sizeof *met);
    struct pb_peers_attach w = {.seeds = seeds};

    pthread_mutex_lock(&p->lock);
    pb_peers_refresh_key(p);
    memcpy(at, p->seeds, sizeof p->seeds);
    w.nseeds = p->nseeds;
    pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < w.nseeds; i++)
        seeds[i] = at[i];
    meet_seeds(p, &w, met);
    pthread_mutex_lock(&p->lock);
    p->lost = pb_members_count(&p->members) <= (p->observer ? 0 : 1);
    p->resuming = false;
    pthread_mutex_unlock(&p->lock);
    free(met);
    free(at);
}

/* Does one of those that we reach reach us? If not, we can ask and not be asked. */
static void check_way_back(struct pb_peers *p)
{
    char other[PB_MEMBER_ID] = "", self[PB_MEMBER_ID];

    pthread_mutex_lock(&p->lock);
    memcpy(self, p->members.self, sizeof self);
    for (size_t i = 0; i < p->members.n && !*other; i++)
        if (p->members.v[i]->state == PB_MEMBER_ALIVE && p->members.v[i]->heard_ns &&
            strcmp(p->members.v[i]->id, self) != 0)
            memcpy(other, p->members.v[i]->id, sizeof other);
    pthread_mutex_unlock(&p->lock);
    if (!*other || pb_peers_reached_by(p, other, self, PROBE_MS))
        return;
    pb_peers_say_goodbye(p);
    pthread_mutex_lock(&p->lock);
    p->observer = true;
    pthread_mutex_unlock(&p->lock);
}

int pb_peers_attach(struct pb_peers *p, const struct pb_peers_port *port,
                    const struct pb_peers_attach *w, struct pb_arena *a,
                    struct pb_peers_seed **ret_seeds, struct pb_err *err)
{
    const char *name = w->name ? w->name : DEFAULT_NAME;
    bool attached, same, observer;

    pthread_mutex_lock(&p->lock);
    attached = p->attached;
    same = attached && strcmp(p->name, name) == 0 &&
           strcmp(p->token, w->token ? w->token : "") == 0;
    pthread_mutex_unlock(&p->lock);
    if (attached && !same)
        return pb_err_set(err, PB_FAIL, "this node belongs to cluster '%s' already%s; leave it "
                                        "first: probing cluster detach", p->name,
                          strcmp(p->name, name) == 0 ? " with another token" : "");
    if (!attached && begin(p, port, w, name, err) < 0) {
        reset(p);
        return -1;
    }
    pb_peers_look_at_jobs(p);
    *ret_seeds = PB_NEW_N(a, struct pb_peers_seed, w->nseeds + 1);
    meet_seeds(p, w, *ret_seeds);
    pthread_mutex_lock(&p->lock);
    observer = p->observer;
    pthread_mutex_unlock(&p->lock);
    if (!attached && !observer)
        check_way_back(p);
    pb_peers_save(p);
    return start_thread(p, err);
}

void pb_peers_expect(struct pb_peers *p)
{
    pthread_mutex_lock(&p->lock);
    p->resuming = true;
    pthread_mutex_unlock(&p->lock);
}

void pb_peers_resume(struct pb_peers *p, const struct pb_peers_port *port)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_peers_attach w;
    struct pb_peers_seed *seeds;
    struct pb_err err = {0};
    size_t known = 0;

    /* The seeds are met by the thread of the rounds: a start does not wait for them. */
    if (pb_peers_read_saved(p, &w, &a)) {
        for (size_t i = 0; i < w.nseeds; i++)
            remember_seed(p, w.seeds[i]);
        known = w.nseeds;
        w.nseeds = 0;
        if (pb_peers_attach(p, port, &w, &a, &seeds, &err) < 0 && w.address) {
            w.address = NULL; /* the port is somebody else's by now */
            err = (struct pb_err){0};
            pb_peers_attach(p, port, &w, &a, &seeds, &err);
        }
    }
    pthread_mutex_lock(&p->lock);
    p->resuming &= known && p->running; /* the thread ends it */
    pthread_mutex_unlock(&p->lock);
    pb_arena_finish(&a);
}

bool pb_peers_detach(struct pb_peers *p, const struct pb_peers_port *port)
{
    char bound[sizeof p->bound];

    if (!pb_peers_attached(p))
        return false;
    stop_thread(p);
    if (!p->observer)
        pb_peers_say_goodbye(p);
    memcpy(bound, p->bound, sizeof bound);
    reset(p);
    pb_peers_forget_saved(p);
    if (bound[0])
        port->close(port->arg, bound);
    return true;
}

bool pb_peers_attached(struct pb_peers *p)
{
    bool yes;

    if (!p)
        return false;
    pthread_mutex_lock(&p->lock);
    yes = p->attached;
    pthread_mutex_unlock(&p->lock);
    return yes;
}

void pb_peers_add_bytes(struct pb_peers *p, uint64_t in, uint64_t out)
{
    atomic_fetch_add(&p->bytes_in, in);
    atomic_fetch_add(&p->bytes_out, out);
}

void pb_peers_refuse(struct pb_peers *p)
{
    atomic_fetch_add(&p->refused, 1);
}

void pb_peers_cost(struct pb_peers *p, struct pb_peers_cost *ret)
{
    *ret = (struct pb_peers_cost){atomic_load(&p->exchanges), atomic_load(&p->bytes_in),
                                  atomic_load(&p->bytes_out), atomic_load(&p->refused)};
}
