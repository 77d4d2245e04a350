#include "cluster/members.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "host/text/alloc.h"

/* All nodes of a cluster compare their sums. */
#define SUM_SEED UINT64_C(1469598103934665603)

void pb_member_finish(struct pb_member *one)
{
    free(one->jobs);
    one->jobs = NULL;
    one->njobs = 0;
}

void pb_members_finish(struct pb_members *m)
{
    for (size_t i = 0; i < m->n; i++) {
        pb_member_finish(m->v[i]);
        free(m->v[i]);
    }
    free(m->v);
    *m = (struct pb_members){0};
}

/* Where it is, or belongs. */
static size_t place_of(const struct pb_members *m, const char *id)
{
    size_t low = 0, high = m->n;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (strcmp(m->v[mid]->id, id) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

struct pb_member *pb_members_find(const struct pb_members *m, const char *id)
{
    size_t at = place_of(m, id);

    return at < m->n && strcmp(m->v[at]->id, id) == 0 ? m->v[at] : NULL;
}

struct pb_member *pb_members_self(const struct pb_members *m)
{
    return m->self[0] ? pb_members_find(m, m->self) : NULL;
}

size_t pb_members_count(const struct pb_members *m)
{
    size_t n = 0;

    for (size_t i = 0; i < m->n; i++)
        n += m->v[i]->state <= PB_MEMBER_SUSPECT;
    return n;
}

static bool is_at(const struct pb_member *one, const char *address)
{
    for (size_t i = 0; i < one->nat; i++)
        if (strcmp(one->at[i], address) == 0)
            return true;
    return false;
}

struct pb_member *pb_members_at(const struct pb_members *m, const char *address)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->v[i]->state <= PB_MEMBER_SUSPECT && is_at(m->v[i], address))
            return m->v[i];
    return NULL;
}

static struct pb_member *insert(struct pb_members *m, const struct pb_member *one)
{
    size_t at = place_of(m, one->id);

    if (m->n == m->cap) {
        m->cap = m->cap ? m->cap * 2 : 16;
        m->v = pb_alloc_resize(m->v, m->cap * sizeof *m->v);
    }
    memmove(m->v + at + 1, m->v + at, (m->n - at) * sizeof *m->v);
    m->n++;
    m->v[at] = pb_alloc_resize(NULL, sizeof **m->v);
    *m->v[at] = *one;
    return m->v[at];
}

void pb_members_set_self(struct pb_members *m, struct pb_member *one)
{
    memcpy(m->self, one->id, sizeof m->self);
    insert(m, one);
    *one = (struct pb_member){0};
}

void pb_member_touch(struct pb_member *one)
{
    one->version++;
    one->told = 0;
}

bool pb_member_add_address(struct pb_member *one, const char *address)
{
    size_t at = 0;
    bool known;

    if (strlen(address) >= PB_MEMBER_ADDRESS)
        return false;
    while (at < one->nat && strcmp(one->at[at], address) != 0)
        at++;
    known = at < one->nat;
    if (known && at == 0)
        return false;
    if (!known && one->nat < PB_MEMBER_ADDRESSES)
        one->nat++;
    if (at >= PB_MEMBER_ADDRESSES)
        at = PB_MEMBER_ADDRESSES - 1;
    memmove(one->at[1], one->at[0], at * sizeof one->at[0]);
    strcpy(one->at[0], address);
    return !known;
}

void pb_member_set_state(struct pb_member *one, enum pb_member_state state, uint64_t now_ns)
{
    if (one->state == state)
        return;
    one->state = state;
    one->since_ns = now_ns;
    one->told = 0;
}

/* Is a later than b? */
static bool is_later(const struct pb_member *a, const struct pb_member *b)
{
    if (a->generation != b->generation)
        return a->generation > b->generation;
    if (a->version != b->version)
        return a->version > b->version;
    return a->state > b->state;
}

/* Somebody says that we are suspect or gone, or something that we did not say. */
static bool refute(struct pb_member *self, const struct pb_member *said)
{
    if (!is_later(said, self))
        return false;
    self->generation = said->generation;
    self->version = said->version + 1;
    /* A liar may have used up all numbers: whatever we say then must still be one that can be. */
    if (self->version > PB_MEMBER_VERSION_MAX / 2) {
        self->generation++;
        self->version = 1;
    }
    self->told = 0;
    return true;
}

/* At one address there is one node: the one that started last. */
static void replace_others(struct pb_members *m, const struct pb_member *one, uint64_t now_ns)
{
    for (size_t i = 0; i < m->n; i++) {
        struct pb_member *other = m->v[i];

        if (other == one || strcmp(other->id, m->self) == 0 ||
            other->state > PB_MEMBER_SUSPECT || other->generation >= one->generation)
            continue;
        for (size_t k = 0; k < one->nat; k++)
            if (is_at(other, one->at[k]))
                pb_member_set_state(other, PB_MEMBER_LEFT, now_ns);
    }
}

/* What this node alone knows of the old record goes on. */
static void take_over(struct pb_member *old, struct pb_member *new, uint64_t now_ns)
{
    struct pb_member was = *old;

    *old = *new;
    old->since_ns = was.state == new->state ? was.since_ns : now_ns;
    old->heard_ns = was.heard_ns;
    old->offset_ns = was.offset_ns;
    old->error_ns = was.error_ns;
    old->offset_at_ns = was.offset_at_ns;
    memcpy(old->via, was.via, sizeof old->via);
    if (new->state == PB_MEMBER_ALIVE)
        old->reason[0] = '\0';
    else
        memcpy(old->reason, was.reason, sizeof old->reason);
    pb_member_finish(&was);
    *new = (struct pb_member){0};
}

bool pb_members_merge(struct pb_members *m, struct pb_member *one, bool old_news, uint64_t now_ns)
{
    struct pb_member *old = pb_members_find(m, one->id);
    bool changed = false;

    if (old && strcmp(one->id, m->self) == 0) {
        changed = refute(old, one);
    } else if (old && is_later(one, old)) {
        take_over(old, one, now_ns);
        old->told = old_news ? PB_MEMBER_TOLD : 0;
        changed = true;
    } else if (!old && one->state <= PB_MEMBER_SUSPECT) {
        if (m->n < PB_MEMBERS_MAX) {
            one->since_ns = now_ns;
            one->told = old_news ? PB_MEMBER_TOLD : 0;
            old = insert(m, one);
            *one = (struct pb_member){0};
            changed = true;
        } else {
            m->refused++;
        }
    }
    if (changed && old->state <= PB_MEMBER_SUSPECT)
        replace_others(m, old, now_ns);
    pb_member_finish(one);
    return changed;
}

void pb_members_forget(struct pb_members *m, uint64_t now_ns, uint64_t after_ns)
{
    size_t kept = 0;

    for (size_t i = 0; i < m->n; i++) {
        struct pb_member *one = m->v[i];

        if (one->state > PB_MEMBER_SUSPECT && now_ns - one->since_ns > after_ns &&
            strcmp(one->id, m->self) != 0) {
            pb_member_finish(one);
            free(one);
        } else {
            m->v[kept++] = one;
        }
    }
    m->n = kept;
}

uint64_t pb_members_sum(const struct pb_members *m)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < m->n; i++) {
        const struct pb_member *one = m->v[i];
        uint64_t numbers[] = {one->generation, one->version, one->state};
        uint64_t hash = pb_hash_bytes(SUM_SEED, one->id, PB_MEMBER_ID - 1);

        if (one->state <= PB_MEMBER_SUSPECT)
            sum ^= pb_hash_bytes(hash, numbers, sizeof numbers);
    }
    return sum;
}
