/* The thread that keeps the list of members: a talk with one of them in each round. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "host/text/alloc.h"
#include "node/peers/internal.h"
#include "node/peers/ranks.h"

#define NS_PER_MS 1000000ull
#define REACH_MIN_MS 1000
#define REACH_MAX_MS 3000
#define HELPERS 2
#define SUSPECT_ROUNDS 3
#define JOBS_ROUNDS 2
#define GONE_ROUNDS 6
#define SAVE_EVERY_NS (60000 * NS_PER_MS)
#define FORGET_NS (3600000 * NS_PER_MS)

static uint64_t period_ns(const struct pb_peers *p)
{
    return (uint64_t)atomic_load(p->opts.interval_ms) * NS_PER_MS;
}

/* How long one may take to answer: a round, within reason. */
static int reach_ms(const struct pb_peers *p)
{
    int64_t ms = atomic_load(p->opts.interval_ms);

    return ms < REACH_MIN_MS ? REACH_MIN_MS : ms > REACH_MAX_MS ? REACH_MAX_MS : (int)ms;
}

static uint32_t random_below(uint32_t n)
{
    uint32_t v = 0;

    if (getrandom(&v, sizeof v, GRND_NONBLOCK) != sizeof v)
        v = (uint32_t)pb_clock_ns();
    return n ? v % n : 0;
}

static bool same_jobs(const struct pb_member *one, const struct pb_member_job *jobs, size_t n)
{
    return one->njobs == n && (!n || memcmp(one->jobs, jobs, n * sizeof *jobs) == 0);
}

void pb_peers_look_at_jobs(struct pb_peers *p)
{
    struct pb_member_job *jobs;
    size_t n = pb_ranks_jobs(p->opts.ranks, &jobs);
    struct pb_member *self;

    pthread_mutex_lock(&p->lock);
    self = pb_members_self(&p->members);
    if (self && !same_jobs(self, jobs, n)) {
        free(self->jobs);
        self->jobs = jobs;
        self->njobs = n;
        jobs = NULL;
        pb_member_touch(self);
    }
    p->jobs_ns = pb_clock_ns();
    pthread_mutex_unlock(&p->lock);
    free(jobs);
}

/* With the lock held: all others that live, in a new order each time. */
static void shuffle(struct pb_peers *p)
{
    size_t n = 0;

    p->order = pb_alloc_resize(p->order, (p->members.n + 1) * sizeof *p->order);
    for (size_t i = 0; i < p->members.n; i++) {
        const struct pb_member *it = p->members.v[i];

        if (it->state <= PB_MEMBER_SUSPECT && strcmp(it->id, p->members.self) != 0)
            memcpy(p->order[n++], it->id, PB_MEMBER_ID);
    }
    for (size_t i = n; i > 1; i--) {
        size_t k = random_below((uint32_t)i);
        char was[PB_MEMBER_ID];

        memcpy(was, p->order[i - 1], sizeof was);
        memcpy(p->order[i - 1], p->order[k], sizeof was);
        memcpy(p->order[k], was, sizeof was);
    }
    p->norder = n;
    p->turn = 0;
}

/* With the lock held: whose turn it is; false when there is nobody. */
static bool next_member(struct pb_peers *p, char id[PB_MEMBER_ID])
{
    for (int tries = 0; tries < 2; tries++) {
        while (p->turn < p->norder) {
            const struct pb_member *it = pb_members_find(&p->members, p->order[p->turn++]);

            if (it && it->state <= PB_MEMBER_SUSPECT) {
                memcpy(id, it->id, PB_MEMBER_ID);
                return true;
            }
        }
        shuffle(p);
    }
    return false;
}

/* With the lock held: a few others that may reach it where we do not. */
static size_t pick_helpers(struct pb_peers *p, const char *id, char ret[HELPERS][PB_MEMBER_ID])
{
    size_t n = 0, from = random_below((uint32_t)p->members.n);

    for (size_t i = 0; i < p->members.n && n < HELPERS; i++) {
        const struct pb_member *it = p->members.v[(from + i) % p->members.n];

        if (it->state == PB_MEMBER_ALIVE && strcmp(it->id, id) != 0 &&
            strcmp(it->id, p->members.self) != 0)
            memcpy(ret[n++], it->id, PB_MEMBER_ID);
    }
    return n;
}

static void suspect(struct pb_peers *p, const char *id)
{
    char helpers[HELPERS][PB_MEMBER_ID];
    struct pb_member *it;
    size_t n;

    pthread_mutex_lock(&p->lock);
    n = pick_helpers(p, id, helpers);
    pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < n; i++)
        if (pb_peers_reached_by(p, helpers[i], id, reach_ms(p)))
            return; /* the way to it is cut, not it */
    pthread_mutex_lock(&p->lock);
    it = pb_members_find(&p->members, id);
    if (it && it->state == PB_MEMBER_ALIVE)
        pb_member_set_state(it, PB_MEMBER_SUSPECT, pb_clock_ns());
    pthread_mutex_unlock(&p->lock);
}

/* With the lock held: one that is gone, or a seed that is no member. */
static bool pick_lost(struct pb_peers *p, char address[PB_MEMBER_ADDRESS])
{
    size_t from = random_below((uint32_t)p->members.n);

    for (size_t i = 0; i < p->members.n; i++) {
        const struct pb_member *it = p->members.v[(from + i) % p->members.n];

        if (it->state == PB_MEMBER_GONE && *pb_member_address(it)) {
            strcpy(address, pb_member_address(it));
            return true;
        }
    }
    from = random_below((uint32_t)p->nseeds);
    for (size_t i = 0; i < p->nseeds; i++) {
        const char *seed = p->seeds[(from + i) % p->nseeds];

        if (!pb_members_at(&p->members, seed)) {
            strcpy(address, seed);
            return true;
        }
    }
    return false;
}

static void try_lost(struct pb_peers *p, bool alone)
{
    char address[PB_MEMBER_ADDRESS];
    uint64_t now = pb_clock_ns();
    bool found = false;

    pthread_mutex_lock(&p->lock);
    if (alone || now - p->gone_ns > GONE_ROUNDS * period_ns(p)) {
        p->gone_ns = now;
        found = pick_lost(p, address);
    }
    pthread_mutex_unlock(&p->lock);
    if (found)
        pb_peers_exchange(p, address, NULL, reach_ms(p), NULL, NULL);
}

/* With the lock held: who was suspect for long is gone, who was gone for long is forgotten. */
static void judge(struct pb_peers *p)
{
    uint64_t now = pb_clock_ns(), patience = SUSPECT_ROUNDS * period_ns(p);

    for (size_t i = 0; i < p->members.n; i++) {
        struct pb_member *it = p->members.v[i];

        if (it->state == PB_MEMBER_SUSPECT && now - it->since_ns > patience)
            pb_member_set_state(it, PB_MEMBER_GONE, now);
    }
    pb_members_forget(&p->members, now, FORGET_NS);
}

static void one_round(struct pb_peers *p)
{
    char id[PB_MEMBER_ID];
    uint64_t now = pb_clock_ns();
    struct pb_err err = {0};
    bool look, someone, save;

    pthread_mutex_lock(&p->lock);
    pb_peers_refresh_key(p);
    judge(p);
    look = !p->observer && now - p->jobs_ns > JOBS_ROUNDS * period_ns(p);
    save = now - p->saved_ns > SAVE_EVERY_NS;
    someone = next_member(p, id);
    pthread_mutex_unlock(&p->lock);
    if (look)
        pb_peers_look_at_jobs(p);
    if (someone && pb_peers_reach(p, id, reach_ms(p), &err) < 0)
        suspect(p, id);
    try_lost(p, !someone);
    if (save)
        pb_peers_save(p);
    else
        pb_peers_save_more(p);
}

/* Until the next round, with jitter so that nodes do not fall into step. */
static struct timespec next_time(struct pb_peers *p)
{
    uint64_t period = period_ns(p);
    uint64_t at = pb_clock_ns() + period - period / 8 +
                  random_below((uint32_t)(period / 4000)) * 1000ull;

    return (struct timespec){(time_t)(at / 1000000000), (long)(at % 1000000000)};
}

void *pb_peers_rounds(void *peers)
{
    struct pb_peers *p = peers;

    pthread_mutex_lock(&p->lock);
    if (p->resuming) {
        pthread_mutex_unlock(&p->lock);
        pb_peers_meet_saved(p);
        pthread_mutex_lock(&p->lock);
    }
    while (!p->stopping) {
        struct timespec until = next_time(p);

        while (!p->stopping && pthread_cond_timedwait(&p->wake, &p->lock, &until) == 0)
            ;
        if (p->stopping)
            break;
        pthread_mutex_unlock(&p->lock);
        one_round(p);
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}
