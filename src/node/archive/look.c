/*
 * A look at all stores: which rings to seal, and which folders have served their purpose.
 */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/home.h"
#include "node/archive/internal.h"

/* So long a look takes at most for what can wait: a living process may need us meanwhile. */
static const uint64_t ENOUGH = 50000000;

enum kind { OF_PROCESS, OF_NODE, OF_FOREIGN_NODE };

/* Nodes of other histories measure the same machine: their rows are not ours to keep. */
static enum kind kind_of(const struct pb_archive *a, const struct pb_store *store)
{
    struct pb_arena arena = PB_ARENA_INIT;
    enum kind kind = OF_PROCESS;
    size_t n = strlen(a->lake.root) - strlen("/lake");
    const char *role = pb_store_value(store->meta, "role", &arena), *data;

    if (role && strcmp(role, "node") == 0) {
        data = pb_store_value(store->meta, "data", &arena);
        kind = data && strlen(data) == n && memcmp(data, a->lake.root, n) == 0 ? OF_NODE
                                                                              : OF_FOREIGN_NODE;
    }
    pb_arena_finish(&arena);
    return kind;
}

static bool is_sealed(const struct pb_store *store)
{
    uint64_t first, next;

    for (size_t i = 0; i < store->nrings; i++) {
        pb_reader_range(&store->rings[i]->reader, &first, &next);
        if (next > atomic_load(&store->rings[i]->sealed))
            return false;
    }
    return true;
}

/* Seals a store's rings; returns nanoseconds until the next look. */
static uint64_t seal_store(struct pb_archive *a, const struct pb_store *store, bool final,
                           uint64_t began)
{
    enum kind kind = kind_of(a, store);
    uint64_t soonest = PB_SEAL_LAZY_NS;

    if (kind == OF_FOREIGN_NODE || (final && !store->process.live))
        return soonest;
    for (size_t i = 0; i < store->nrings; i++) {
        bool late = pb_clock_ns() - began > ENOUGH;
        uint64_t wait = pb_archive_seal(a, store->rings[i], store->process.live,
                                        final  ? PB_SEAL_ALL
                                        : late ? PB_SEAL_URGENT
                                               : PB_SEAL_DUE);

        if (wait < soonest)
            soonest = wait;
    }
    /* A node's own rows are about others; once they are on disk nobody needs the folder. */
    if (kind == OF_NODE && store->uid == geteuid() &&
        (!store->process.live || (final && store->process.pid == getpid())) && is_sealed(store))
        pb_home_erase(store->path);
    return soonest;
}

static bool series_exists(const struct pb_series *s, void *arg)
{
    const struct pb_archive *a = arg;

    return s->sealing.look == a->look;
}

uint64_t pb_archive_look(struct pb_archive *a, const struct pb_stores *stores, bool final)
{
    uint64_t soonest = PB_SEAL_LAZY_NS, began = pb_clock_ns();

    a->look++;
    for (int dead = 0; dead < 2; dead++) { /* those can wait */
        for (size_t i = 0; i < stores->nstores; i++) {
            const struct pb_store *store = stores->stores[i];
            uint64_t wait = PB_SEAL_LAZY_NS;

            if (store->process.live == !dead)
                wait = seal_store(a, store, final, began);
            if (wait < soonest)
                soonest = wait;
        }
    }
    pthread_mutex_lock(&a->index);
    pb_lake_prune(&a->lake, series_exists, a);
    pthread_mutex_unlock(&a->index);
    return soonest;
}
