#include "node/watchdog/journal.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/hash.h"

enum { ENTRIES = 256, SUSPECTS = 64, WHY = 64 };

struct entry {
    _Atomic uint32_t busy;
    int32_t outer;                /* what the thread was at before, or -1 */
    uint64_t query;               /* hash of its text; 0: a ring */
    struct pb_ring_identity ring;
};

struct suspect {
    uint64_t query;
    struct pb_ring_identity ring;
    uint32_t strikes; /* 0: free */
    bool refused;
    int64_t when;
    char why[WHY];
};

struct pb_journal {
    _Atomic bool ready, ended;
    _Atomic int dying;       /* entry of the thread that dies, plus 1 */
    struct entry dying_read; /* or, while busy, the ring that it read without an entry */
    uint32_t restarts, next; /* next: the suspect that makes room */
    int64_t when;
    char why[WHY];
    struct entry entries[ENTRIES];
    struct suspect suspects[SUSPECTS];
    struct pb_stalls stalls;
};

/* What this thread is at: a signal handler has no other way to know. */
static _Thread_local int current = -1;

struct pb_journal *pb_journal_create(void)
{
    struct pb_journal *j = mmap(NULL, sizeof *j, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    return j == MAP_FAILED ? NULL : j;
}

void pb_journal_destroy(struct pb_journal *j)
{
    if (j)
        munmap(j, sizeof *j);
}

/* Never 0. */
static uint64_t hash_of(const char *text)
{
    uint64_t hash = pb_hash_text(PB_HASH_SEED, text);

    return hash ? hash : 1;
}

static int begin(struct pb_journal *j, uint64_t query, const struct pb_ring_identity *ring)
{
    for (int i = 0; i < ENTRIES; i++) {
        uint32_t free = 0;

        if (!atomic_compare_exchange_strong(&j->entries[i].busy, &free, 1))
            continue;
        j->entries[i].outer = current;
        j->entries[i].query = query;
        j->entries[i].ring = *ring;
        /* An entry counts once it is whole. */
        atomic_store(&j->entries[i].busy, 2);
        current = i;
        return i;
    }
    return -1;
}

int pb_journal_begin_query(struct pb_journal *j, const char *text)
{
    return j ? begin(j, hash_of(text), &(struct pb_ring_identity){0}) : -1;
}

int pb_journal_begin_ring(struct pb_journal *j, const struct pb_ring_identity *ring)
{
    return j ? begin(j, 0, ring) : -1;
}

void pb_journal_end(struct pb_journal *j, int entry)
{
    if (!j || entry < 0)
        return;
    current = j->entries[entry].outer;
    atomic_store(&j->entries[entry].busy, 0);
}

static bool is_same_ring(const struct pb_ring_identity *x, const struct pb_ring_identity *y)
{
    return x->device == y->device && x->inode == y->inode && x->created_ns == y->created_ns;
}

static struct suspect *find(struct pb_journal *j, uint64_t query,
                            const struct pb_ring_identity *ring)
{
    for (int i = 0; i < SUSPECTS; i++)
        if (j->suspects[i].strikes && j->suspects[i].query == query &&
            (query || is_same_ring(&j->suspects[i].ring, ring)))
            return &j->suspects[i];
    return NULL;
}

bool pb_journal_refused(struct pb_journal *j, const char *query, char *buf, size_t cap)
{
    const struct suspect *s = j ? find(j, hash_of(query), NULL) : NULL;
    time_t when;
    struct tm tm;
    char clock[16];

    if (!s || !s->refused)
        return false;
    when = (time_t)s->when;
    localtime_r(&when, &tm);
    strftime(clock, sizeof clock, "%H:%M:%S", &tm);
    snprintf(buf, cap, "ended the server at %s (%s)", clock, s->why);
    return true;
}

void pb_journal_blame_entry(struct pb_journal *j, int entry)
{
    if (j && entry >= 0)
        atomic_store(&j->dying, entry + 1);
}

void pb_journal_dying(struct pb_journal *j, const struct pb_ring_identity *ring)
{
    bool noted = current >= 0 && j->entries[current].query == 0;
    int none = 0;
    uint32_t free = 0;

    if (ring && !noted && atomic_compare_exchange_strong(&j->dying_read.busy, &free, 1)) {
        j->dying_read.ring = *ring;
        atomic_store(&j->dying_read.busy, 2);
    }
    if (current >= 0)
        atomic_compare_exchange_strong(&j->dying, &none, current + 1);
}

/* Returns whether it is guilty. */
static bool add_strike(struct pb_journal *j, const struct entry *e, bool sure)
{
    struct suspect *s = find(j, e->query, &e->ring);

    if (!s) {
        s = &j->suspects[j->next++ % SUSPECTS];
        *s = (struct suspect){.query = e->query, .ring = e->ring};
    }
    s->strikes++;
    s->refused |= sure || s->strikes > 1;
    s->when = j->when;
    memcpy(s->why, j->why, sizeof s->why);
    return s->refused;
}

/* The entry that the dying thread was at, or NULL. */
static const struct entry *find_dying(const struct pb_journal *j)
{
    int dying = atomic_load(&j->dying) - 1;

    if (atomic_load(&j->dying_read.busy) == 2)
        return &j->dying_read;
    return dying >= 0 && dying < ENTRIES && j->entries[dying].busy == 2 ? &j->entries[dying] : NULL;
}

void pb_journal_restarted(struct pb_journal *j, time_t when, const char *why)
{
    j->restarts++;
    j->when = when;
    snprintf(j->why, sizeof j->why, "%s", why);
    for (int i = 0; i < ENTRIES; i++)
        atomic_store(&j->entries[i].busy, 0);
    atomic_store(&j->dying_read.busy, 0);
    atomic_store(&j->dying, 0);
    pb_stalls_clear(&j->stalls);
}

struct pb_stalls *pb_journal_stalls(struct pb_journal *j)
{
    return j ? &j->stalls : NULL;
}

int pb_journal_blame(struct pb_journal *j, time_t when, const char *why,
                     void (*guilty)(const struct pb_ring_identity *ring, void *arg), void *arg)
{
    const struct entry *dying = find_dying(j);
    int n = 0;

    j->when = when;
    snprintf(j->why, sizeof j->why, "%s", why);
    for (int i = 0; i < ENTRIES; i++)
        n += j->entries[i].busy == 2;
    for (int i = 0; i < (dying ? 1 : ENTRIES); i++) {
        const struct entry *e = dying ? dying : &j->entries[i];

        if (e->busy == 2 && add_strike(j, e, dying || n == 1) && !e->query)
            guilty(&e->ring, arg);
    }
    pb_journal_restarted(j, when, why);
    return dying ? 1 : n;
}

unsigned pb_journal_restarts(const struct pb_journal *j, time_t *ret_when, char *why, size_t cap)
{
    if (!j)
        return 0;
    *ret_when = (time_t)j->when;
    snprintf(why, cap, "%s", j->why);
    return j->restarts;
}

void pb_journal_set_ready(struct pb_journal *j, bool ready)
{
    if (!j)
        return;
    atomic_store(&j->ready, ready);
    if (!ready)
        atomic_store(&j->ended, false);
}

void pb_journal_set_ended(struct pb_journal *j)
{
    if (j)
        atomic_store(&j->ended, true);
}

bool pb_journal_is_ready(const struct pb_journal *j)
{
    return j && atomic_load(&j->ready);
}

bool pb_journal_is_ended(const struct pb_journal *j)
{
    return j && atomic_load(&j->ended);
}
