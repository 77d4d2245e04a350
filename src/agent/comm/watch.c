/* Torch's counts of operations, watched in its memory. */
#include <string.h>

#include "agent/comm/comm.h"
#include "base/ownmem.h"

#define POLLS_ONE 2   /* different values, when one word is left */
#define POLLS_SOME 5  /* when some always agree: then any will do */
#define LARGE 1000    /* a value that is hardly anything else */
#define SPINS 1000
#define HEAD 16       /* bytes of every Python object, before what pybind11 wraps */

int64_t pb_comm_read(const struct pb_comm *c, void *to, uintptr_t from, size_t len)
{
    return pb_ownmem_some(c->pid, to, from, len);
}

static struct pb_comm_watch *watch_of(struct pb_comm *c, const struct pb_comm_group *g, int i)
{
    return &c->groups.watches[g - c->groups.list][i];
}

int pb_comm_backend(const struct pb_comm_group *g, bool device)
{
    return !device && g->backends[1] ? 1 : 0;
}

static struct pb_comm_counter *counter_of(struct pb_comm *c, struct _object *type)
{
    struct pb_comm_counter *room = NULL;

    for (int i = 0; i < PB_COMM_CLASSES; i++) {
        if (c->groups.counters[i].type == type)
            return &c->groups.counters[i];
        if (!c->groups.counters[i].type && !room)
            room = &c->groups.counters[i];
    }
    if (room) {
        *room = (struct pb_comm_counter){.type = type, .word = -1, .value = -1};
        memset(room->agreed, 1, sizeof room->agreed);
    }
    return room;
}

/* One more value of the counter: the words that are not it are out. */
static void compare(const struct pb_comm *c, struct pb_comm_counter *k, uintptr_t object,
                    int64_t value)
{
    int64_t words[PB_COMM_SCAN];
    int64_t got = pb_comm_read(c, words, object, sizeof words);
    int left = 0, first = -1, enough;

    if (got < 0) /* its end is near the end of a mapping */
        got = pb_comm_read(c, words, object, 4096 - object % 4096);
    if (value == k->value)
        return;
    for (int i = 0; i < PB_COMM_SCAN; i++) {
        k->agreed[i] &= (i + 1) * 8 <= got && words[i] == value;
        left += k->agreed[i];
        if (k->agreed[i] && first < 0)
            first = i;
    }
    k->value = value;
    k->polls++;
    enough = left != 1 ? POLLS_SOME : value >= LARGE ? 1 : POLLS_ONE;
    k->word = left && k->polls >= enough ? first : -1;
    if (!left) { /* it was something else: from the beginning */
        memset(k->agreed, 1, sizeof k->agreed);
        k->polls = 0;
        k->value = -1;
    }
}

/* The C++ object of a backend, or before torch 2.0 of a group: pybind11 has it behind the head. */
static uintptr_t object_of(struct pb_comm *c, struct _object *group, int which,
                           struct _object **ret_type)
{
    const struct pb_py *py = &c->self->py;
    struct _object *get = py->PyObject_GetAttrString(group, "_get_backend");
    struct _object *backend = get && c->groups.devices[which]
                                  ? py->PyObject_CallFunction(get, "O", c->groups.devices[which])
                                  : NULL;
    struct _object *holder = get ? backend : group;
    uintptr_t object = 0;

    py->PyErr_Clear();
    if (holder) {
        memcpy(&object, (const char *)holder + HEAD, sizeof object);
        *ret_type = py->PyObject_Type(holder);
        py->Py_DecRef(*ret_type); /* its class lives as long as torch does */
    }
    py->Py_DecRef(backend);
    py->Py_DecRef(get);
    return object;
}

static void find_backends(struct pb_comm *c, struct pb_comm_group *g, struct _object *group)
{
    for (int i = 0; i < PB_COMM_BACKENDS; i++)
        g->backends[i] = object_of(c, group, i, &g->types[i]);
    g->has_cpu = g->backends[1];
    if (!g->backends[0]) {
        g->backends[0] = g->backends[1];
        g->types[0] = g->types[1];
    }
    if (g->backends[0] == g->backends[1])
        g->backends[1] = 0;
}

/* A few instructions; whoever cannot have it does without. */
static bool lock(struct pb_comm_watch *w)
{
    for (int i = 0; i < SPINS; i++)
        if (!atomic_flag_test_and_set_explicit(&w->lock, memory_order_acquire))
            return true;
    return false;
}

static void unlock(struct pb_comm_watch *w)
{
    atomic_flag_clear_explicit(&w->lock, memory_order_release);
}

/* What was never told makes us late by as much for ever. */
static void catch_up(struct pb_comm_watch *w, int64_t count)
{
    int64_t behind;

    if (!lock(w))
        return;
    behind = count - w->last;
    if (behind && behind == w->behind) {
        w->last = count;
        w->some = 0;
    }
    w->behind = behind;
    unlock(w);
}

static void look_at(struct pb_comm *c, struct pb_comm_group *g, struct _object *group, int i)
{
    struct pb_comm_watch *w = watch_of(c, g, i);
    struct pb_comm_counter *k = g->backends[i] ? counter_of(c, g->types[i]) : NULL;
    int64_t count = k ? pb_comm_sequence(c, group, i == 0) : -1;

    if (count < 0)
        return;
    compare(c, k, g->backends[i], count);
    if (k->word < 0) {
        w->at = 0;
    } else if (!w->at) {
        w->size = g->size;
        w->skew = g->skew[i];
        w->last = count;
        w->some = 0;
        w->behind = 0;
        w->name = g->name;
        w->at = g->backends[i] + (uintptr_t)k->word * 8;
    } else {
        w->name = g->name;
        catch_up(w, count);
    }
}

void pb_comm_watch(struct pb_comm *c, struct pb_comm_group *g, struct _object *group)
{
    if (!g->backends[0])
        find_backends(c, g, group);
    for (int i = 0; i < PB_COMM_BACKENDS; i++)
        look_at(c, g, group, i);
}

void pb_comm_unwatch(struct pb_comm *c, const struct pb_comm_group *g)
{
    for (int i = 0; i < PB_COMM_BACKENDS; i++)
        watch_of(c, g, i)->at = 0;
}

void pb_comm_watch_forget_backends(struct pb_comm *c, struct _object *group)
{
    for (int i = 0; i < PB_COMM_GROUPS; i++)
        if (c->groups.list[i].object == group) {
            pb_comm_unwatch(c, &c->groups.list[i]);
            memset(c->groups.list[i].backends, 0, sizeof c->groups.list[i].backends);
        }
}

static int64_t count_at(const struct pb_comm *c, uintptr_t at)
{
    int64_t count;

    return at && pb_comm_read(c, &count, at, sizeof count) == sizeof count ? count : -1;
}

int64_t pb_comm_watch_count(const struct pb_comm *c, const struct pb_comm_watch *w)
{
    return count_at(c, w->at);
}

/* Collectives of a group on its first backend that is in use; -1: not known (yet). */
static int64_t collectives_of(struct pb_comm *c, const struct pb_comm_group *g)
{
    for (int i = 0; i < PB_COMM_BACKENDS && g->backends[i]; i++) {
        const struct pb_comm_watch *w = watch_of(c, g, i);
        const struct pb_comm_counter *k = counter_of(c, g->types[i]);
        int64_t n = w->at ? pb_comm_watch_count(c, w) : -1;

        if (n >= 0)
            return n - w->skew;
        if (!k || k->value > 0)
            return -1; /* of another one the ranks would not agree */
    }
    return -1;
}

int64_t pb_comm_collectives(struct pb_self *self)
{
    struct pb_comm *c = pb_comm_state(self);

    for (int i = 0; c && c->on && i < PB_COMM_GROUPS; i++) {
        const struct pb_comm_group *g = &c->groups.list[i];

        if (g->weak && !g->ranks && g->size > 1) /* a group of some ranks has a list of them */
            return collectives_of(c, g);
    }
    return -1;
}

int64_t pb_comm_watched(struct pb_comm *c, const struct pb_comm_group *g, bool device)
{
    uintptr_t at = watch_of(c, g, pb_comm_backend(g, device))->at;

    return at ? __atomic_load_n((const int64_t *)at, __ATOMIC_RELAXED) : -1;
}

/* Called with the watch locked: the operation of this number has a row. */
static void tell(struct pb_comm_watch *w, int64_t number)
{
    int64_t at = number - w->last - 1;

    if (at >= 64) {
        w->last = number;
        w->some = 0;
    } else if (at >= 0) {
        w->some |= 1ull << at;
    }
    while (w->some & 1) {
        w->some >>= 1;
        w->last++;
    }
}

void pb_comm_watch_mark(struct pb_comm_watch *w, int64_t first, int64_t last)
{
    if (!w || !w->at || last - first > 64 || !lock(w))
        return;
    for (int64_t i = first; i <= last; i++)
        tell(w, i);
    unlock(w);
}

/* The first one that has no row yet, if torch has come to it. */
static int64_t claim(struct pb_comm_watch *w, int64_t count)
{
    int64_t number = -1;

    if (!lock(w))
        return -1;
    if (count > w->last) {
        number = w->last + 1;
        tell(w, number);
    }
    unlock(w);
    return number;
}

int64_t pb_comm_watch_claim(struct pb_comm *c, struct pb_comm_watch **ret)
{
    for (int i = 0; i < PB_COMM_GROUPS * PB_COMM_BACKENDS; i++) {
        struct pb_comm_watch *w = &c->groups.watches[i / PB_COMM_BACKENDS][i % PB_COMM_BACKENDS];
        int64_t count = count_at(c, w->at), number = count < 0 ? -1 : claim(w, count);

        if (number >= 0) {
            *ret = w;
            return number - w->skew;
        }
    }
    return -1;
}

void pb_comm_watch_reset(struct pb_comm *c)
{
    for (int i = 0; i < PB_COMM_GROUPS * PB_COMM_BACKENDS; i++) {
        struct pb_comm_watch *w = &c->groups.watches[i / PB_COMM_BACKENDS][i % PB_COMM_BACKENDS];
        int64_t count = count_at(c, w->at);

        if (count >= 0 && lock(w)) {
            w->last = count;
            w->some = 0;
            w->behind = 0;
            unlock(w);
        }
    }
}

int64_t pb_comm_watch_total(struct pb_comm *c)
{
    int64_t total = 0;

    for (int i = 0; i < PB_COMM_GROUPS * PB_COMM_BACKENDS; i++) {
        int64_t count =
            count_at(c, c->groups.watches[i / PB_COMM_BACKENDS][i % PB_COMM_BACKENDS].at);

        total += count > 0 ? count : 0;
    }
    return total;
}
