#include "host/os/filemap.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLOCK_SLOTS = 256 };

struct slot {
    _Atomic uintptr_t start; /* 0: free; 1: being filled */
    _Atomic size_t size;
};

/* Blocks are added and never taken away: a handler may be reading them. */
struct block {
    struct slot slots[BLOCK_SLOTS];
    struct block *_Atomic next;
};

/* A signal handler gets no argument: what it needs to know is here, and nothing else is. */
static struct block first_block;
static struct sigaction before;

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* With a page of zeros behind it. */
static size_t whole(size_t size)
{
    size_t page = page_size();

    return ((size + page - 1) & ~(page - 1)) + page;
}

static struct slot *claim_slot(void)
{
    struct block *b = &first_block, *next, *none;

    for (;; b = next) {
        for (size_t i = 0; i < BLOCK_SLOTS; i++) {
            uintptr_t unused = 0;

            if (atomic_compare_exchange_strong(&b->slots[i].start, &unused, 1))
                return &b->slots[i];
        }
        next = atomic_load(&b->next);
        if (next)
            continue;
        next = calloc(1, sizeof *next);
        none = NULL;
        if (next && !atomic_compare_exchange_strong(&b->next, &none, next)) {
            free(next);
            next = none;
        }
        if (!next)
            return NULL;
    }
}

/* Others may fill slots meanwhile: a size counts if its start is the same before and after. */
static struct slot *find_slot(uintptr_t at, uintptr_t *ret_end)
{
    for (struct block *b = &first_block; b; b = atomic_load(&b->next))
        for (size_t i = 0; i < BLOCK_SLOTS; i++) {
            struct slot *s = &b->slots[i];
            uintptr_t start = atomic_load(&s->start);
            size_t size = atomic_load(&s->size);

            if (start > 1 && at >= start && at - start < size && atomic_load(&s->start) == start) {
                *ret_end = start + size;
                return s;
            }
        }
    return NULL;
}

const uint8_t *pb_filemap_open(int fd, size_t size)
{
    struct slot *s;
    void *data;

    if (!size || size > SIZE_MAX / 2) {
        errno = EFBIG;
        return NULL;
    }
    data = mmap(NULL, whole(size), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED)
        return NULL;
    s = claim_slot();
    if (!s || mmap(data, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED) {
        if (s)
            atomic_store(&s->start, 0);
        munmap(data, whole(size));
        return NULL;
    }
    atomic_store(&s->size, whole(size));
    atomic_store(&s->start, (uintptr_t)data);
    return data;
}

void pb_filemap_close(const uint8_t *data, size_t size)
{
    uintptr_t end;
    struct slot *s = data ? find_slot((uintptr_t)data, &end) : NULL;

    if (!s)
        return;
    atomic_store(&s->start, 0);
    munmap((void *)(uintptr_t)data, whole(size));
}

/* All of the rest at once: what is behind a lost page is lost as well, and a piece of its own for
   each page would be more pieces than a process may have. */
bool pb_filemap_mend(const void *address)
{
    uintptr_t at = (uintptr_t)address & ~(uintptr_t)(page_size() - 1), end;
    int e = errno;
    bool done;

    if (!find_slot(at, &end))
        return false;
    done = mmap((void *)at, end - at, PROT_READ,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
    errno = e;
    return done;
}

static void on_bus(int sig, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code > 0 && pb_filemap_mend(info->si_addr))
        return;
    sigaction(sig, &before, NULL); /* and the same instruction is tried again, if it was one */
    if (info->si_code <= 0)
        raise(sig); /* sent by a process: nothing would try again */
}

void pb_filemap_watch(void)
{
    struct sigaction act = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    sigaction(SIGBUS, &act, &before);
}
