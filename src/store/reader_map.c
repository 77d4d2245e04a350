/*
 * A mapping that survives its file being cut off. Touching a page that the file has lost is a
 * SIGBUS in the thread that does it; a page of zeros is put there, the copy ends, is thrown away,
 * and from then on the ring is read instead.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "store/reader.h"

/* A signal handler gets no argument. */
static _Thread_local const struct pb_reader *guarded;

const struct pb_reader *pb_reader_guard(const struct pb_reader *r)
{
    const struct pb_reader *before = guarded;

    guarded = r;
    atomic_signal_fence(memory_order_seq_cst);
    return before;
}

const struct pb_reader *pb_reader_guarded(void)
{
    return guarded;
}

void pb_reader_map(struct pb_reader *r)
{
    void *map = mmap(NULL, r->size, PROT_READ, MAP_SHARED, r->fd, 0);

    if (map != MAP_FAILED)
        r->map = map;
}

bool pb_reader_mend(void *address)
{
    struct pb_reader *r = (struct pb_reader *)(uintptr_t)guarded;
    uintptr_t at = (uintptr_t)address, page = (uintptr_t)sysconf(_SC_PAGESIZE);
    int e = errno;
    bool done;

    if (!r || !r->map || at < (uintptr_t)r->map || at - (uintptr_t)r->map >= r->size)
        return false;
    atomic_store(&r->cut, true);
    done = mmap((void *)(at & ~(page - 1)), page, PROT_READ,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
    errno = e;
    return done;
}
