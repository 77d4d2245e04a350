/* The list of members for whoever asks, and messages of others that change it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "host/text/json_write.h"
#include "node/peers/internal.h"

#define PROBE_MS 3000
#define MEET_NS 5000000000ull

/* This node first, then by host and address. */
static int compare(const void *a, const void *b)
{
    const struct pb_member *x = a, *y = b;
    int order = strcmp(x->host, y->host);

    return order ? order : strcmp(pb_member_address(x), pb_member_address(y));
}

static bool share_address(const struct pb_member *a, const struct pb_member *b)
{
    for (size_t i = 0; i < a->nat; i++)
        for (size_t k = 0; k < b->nat; k++)
            if (strcmp(a->at[i], b->at[k]) == 0)
                return true;
    return false;
}

/* One that is gone, where another has been since. */
static bool is_replaced(const struct pb_members *m, const struct pb_member *one)
{
    for (size_t i = 0; one->state > PB_MEMBER_SUSPECT && i < m->n; i++)
        if (m->v[i]->generation > one->generation && share_address(m->v[i], one))
            return true;
    return false;
}

void pb_peers_settle(struct pb_peers *p)
{
    static const struct timespec nap = {0, 10000000};
    uint64_t until = pb_clock_ns() + MEET_NS;

    pthread_mutex_lock(&p->lock);
    while (p->resuming && pb_clock_ns() < until) {
        pthread_mutex_unlock(&p->lock);
        nanosleep(&nap, NULL);
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
}

static void list_lost(struct pb_peers *p, struct pb_arena *a, struct pb_peers_list *ret)
{
    if (pb_members_count(&p->members) > (p->observer ? 0 : 1))
        p->lost = false;
    if (!p->lost && !p->resuming)
        return;
    ret->lost = PB_NEW_N(a, const char *, p->nseeds + 1);
    for (size_t i = 0; i < p->nseeds; i++)
        ret->lost[ret->nlost++] = pb_arena_strdup(a, p->seeds[i]);
}

void pb_peers_list(struct pb_peers *p, struct pb_arena *a, struct pb_peers_list *ret)
{
    struct pb_member *v;
    size_t first = 0;

    *ret = (struct pb_peers_list){.name = "", .address = ""};
    if (!p)
        return;
    pb_peers_settle(p);
    pthread_mutex_lock(&p->lock);
    list_lost(p, a, ret);
    ret->attached = p->attached;
    ret->observer = p->observer;
    ret->name = pb_arena_strdup(a, p->name);
    ret->address = pb_arena_strdup(a, p->bound);
    ret->refused = p->members.refused + atomic_load(&p->refused);
    v = PB_NEW_N(a, struct pb_member, p->members.n + 1);
    for (size_t i = 0; i < p->members.n; i++) {
        struct pb_member *to = &v[ret->n];

        if ((p->observer && strcmp(p->members.v[i]->id, p->members.self) == 0) ||
            is_replaced(&p->members, p->members.v[i]))
            continue;
        *to = *p->members.v[i];
        to->jobs = PB_NEW_N(a, struct pb_member_job, to->njobs + 1);
        memcpy(to->jobs, p->members.v[i]->jobs, to->njobs * sizeof *to->jobs);
        if (strcmp(to->id, p->members.self) == 0 && ret->n) {
            struct pb_member was = v[0];

            v[0] = *to;
            *to = was;
        }
        if (strcmp(v[0].id, p->members.self) == 0)
            first = 1;
        ret->n++;
    }
    pthread_mutex_unlock(&p->lock);
    if (ret->n > first)
        qsort(v + first, ret->n - first, sizeof *v, compare);
    ret->v = v;
}

/* Somebody cannot reach one of us and asks whether we can. */
static void probe(struct pb_peers *p, const struct pb_json *message, struct pb_buf *ret)
{
    const char *id = pb_json_str(message, "probe", "");
    int64_t ms = pb_json_whole(message, "ms", PROBE_MS);
    bool reached = pb_peers_reach(p, id, ms > 0 && ms < PROBE_MS ? (int)ms : PROBE_MS, NULL) == 0;

    pb_buf_puts(ret, reached ? "{\"reached\":true}" : "{\"reached\":false}");
}

int pb_peers_take(struct pb_peers *p, const struct pb_json *message, const char *from,
                  const char *here, int64_t came_ns, struct pb_buf *ret, struct pb_err *err)
{
    struct pb_member *sender;
    int rc;

    pthread_mutex_lock(&p->lock);
    if (!p->attached || p->observer)
        rc = pb_err_set(err, PB_DENIED, "this node belongs to no cluster");
    else
        rc = pb_gossip_check(message, p->name, err);
    if (rc < 0)
        atomic_fetch_add(&p->refused, 1);
    if (rc == 0 && !pb_json_get(message, "probe")) {
        pb_peers_note_own(p, here);
        pb_gossip_take(&p->members, message, pb_clock_ns());
        sender = pb_members_find(&p->members, pb_json_str(message, "from", ""));
        if (sender)
            sender->heard_ns = pb_clock_ns();
        pb_gossip_answer(ret, &p->members, p->name, message, from, came_ns);
    }
    pthread_mutex_unlock(&p->lock);
    if (rc == 0 && pb_json_get(message, "probe"))
        probe(p, message, ret);
    else if (rc == 0)
        pb_peers_save_more(p);
    return rc;
}
