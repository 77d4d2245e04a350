#include "node/journal.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { ENTRIES = 256, SUSPECTS = 64, WHY = 64 };

struct entry {
    _Atomic uint32_t busy;
    uint32_t kind;
    uint64_t hash;
    int32_t outer; /* what the thread was at before, or -1 */
};

struct suspect {
    uint64_t hash; /* 0: free */
    uint32_t kind;
    uint32_t strikes;
    bool refused;
    int64_t when;
    char why[WHY];
};

struct pb_journal {
    _Atomic bool ready, ended;
    _Atomic int dying; /* entry of the thread that dies, plus 1 */
    uint32_t restarts, next; /* next: the suspect that makes room */
    int64_t when;
    char why[WHY];
    struct entry entries[ENTRIES];
    struct suspect suspects[SUSPECTS];
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

/* FNV-1a, never 0. */
static uint64_t hash_of(const char *text)
{
    uint64_t hash = 14695981039346656037u;

    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash ? hash : 1;
}

int pb_journal_begin(struct pb_journal *j, enum pb_journal_kind kind, const char *identity)
{
    if (!j)
        return -1;
    for (int i = 0; i < ENTRIES; i++) {
        uint32_t free = 0;

        if (!atomic_compare_exchange_strong(&j->entries[i].busy, &free, 1))
            continue;
        j->entries[i].kind = kind;
        j->entries[i].outer = current;
        j->entries[i].hash = hash_of(identity);
        /* An entry counts once it is whole. */
        atomic_store(&j->entries[i].busy, 2);
        current = i;
        return i;
    }
    return -1;
}

void pb_journal_end(struct pb_journal *j, int entry)
{
    if (!j || entry < 0)
        return;
    current = j->entries[entry].outer;
    atomic_store(&j->entries[entry].busy, 0);
}

static struct suspect *find(struct pb_journal *j, uint32_t kind, uint64_t hash)
{
    for (int i = 0; i < SUSPECTS; i++)
        if (j->suspects[i].hash == hash && j->suspects[i].kind == kind)
            return &j->suspects[i];
    return NULL;
}

bool pb_journal_refused(struct pb_journal *j, enum pb_journal_kind kind, const char *identity,
                        char *buf, size_t cap)
{
    const struct suspect *s = j ? find(j, kind, hash_of(identity)) : NULL;
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

void pb_journal_condemn(struct pb_journal *j, int entry)
{
    if (j && entry >= 0)
        atomic_store(&j->dying, entry + 1);
}

void pb_journal_dying(struct pb_journal *j)
{
    int none = 0;

    if (current >= 0)
        atomic_compare_exchange_strong(&j->dying, &none, current + 1);
}

static void strike(struct pb_journal *j, const struct entry *e, bool sure)
{
    struct suspect *s = find(j, e->kind, e->hash);

    if (!s) {
        s = &j->suspects[j->next++ % SUSPECTS];
        *s = (struct suspect){.hash = e->hash, .kind = e->kind};
    }
    s->strikes++;
    s->refused |= sure || s->strikes > 1;
    s->when = j->when;
    memcpy(s->why, j->why, sizeof s->why);
}

int pb_journal_blame(struct pb_journal *j, time_t when, const char *why)
{
    int dying = atomic_exchange(&j->dying, 0) - 1, n = 0;

    j->restarts++;
    j->when = when;
    snprintf(j->why, sizeof j->why, "%s", why);
    for (int i = 0; i < ENTRIES; i++)
        n += j->entries[i].busy == 2;
    for (int i = 0; i < ENTRIES; i++) {
        if (j->entries[i].busy == 2 && (dying < 0 || i == dying))
            strike(j, &j->entries[i], i == dying || n == 1);
        atomic_store(&j->entries[i].busy, 0);
    }
    return dying >= 0 ? 1 : n;
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
