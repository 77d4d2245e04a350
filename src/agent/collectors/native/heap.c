#include "agent/collectors/native/heap.h"

#include <dlfcn.h>
#include <link.h>

#include "agent/arch/symver.h"
#include "base/ownmem.h"
#include "base/clock.h"

/* struct arena_object, the same in 3.6 to 3.14. */
struct arena {
    uintptr_t address; /* 0: an entry without an arena */
    uintptr_t pool_address;
    uint32_t nfreepools, ntotalpools;
    uintptr_t freepools, next, previous;
};

struct pb_heap_info {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

enum {
    FIRST_ARENAS = 16, /* length of the array in the beginning; it grows by doubling */
    MOST_ARENAS = 1 << 20,
    POOLS = 64, /* in an arena; one less where it is not aligned */
    AT_ONCE = 64,
};
#define CHUNK_HEAD 16       /* glibc's, before each block; the size is in its second half */
#define CHUNK_FLAGS 7u      /* in the low bits of that size */
#define CHUNK_MAPPED 2u
#define CHUNK_SPARE 16      /* a rest too small for a block of its own stays with it */
#define PAGE 4096u
#define PAGE_MOST 65536u
#define RARELY 1000         /* a walk of t is not repeated for so many t */
#define TRIAL (1 << 20)
#define TRIALS 3
#define SLOW_NS 50000u      /* to begin with */
#define SLOWEST_NS 1000000u /* later, when there are more free blocks */
#define ADDRESS_MOST (1ull << 56)
#define SEGMENTS_MAX 8

_Static_assert(sizeof(struct arena) == 48, "as CPython has it");

/* How many entries the array at this address has, by the size of the block that it fills. */
static size_t length_of(uintptr_t array)
{
    size_t head, size, n = FIRST_ARENAS;

    if (!pb_ownmem_read(&head, array - sizeof head, sizeof head))
        return 0;
    size = head & ~(size_t)CHUNK_FLAGS;
    while (n < MOST_ARENAS && n * 2 * sizeof(struct arena) + CHUNK_HEAD <= size)
        n *= 2;
    size -= n * sizeof(struct arena) + CHUNK_HEAD;
    return size <= (head & CHUNK_MAPPED ? PAGE_MOST : CHUNK_SPARE) ? n : 0;
}

static bool is_arena(const struct arena *a, size_t size)
{
    return a->address % PAGE == 0 && a->pool_address >= a->address &&
           a->pool_address <= a->address + size && a->nfreepools <= a->ntotalpools &&
           (a->ntotalpools == POOLS || a->ntotalpools == POOLS - 1);
}

/* Arenas in the array; 0 when it is not one, or changes right now. */
static size_t count_arenas(uintptr_t array, size_t size)
{
    struct arena some[AT_ONCE];
    size_t n, step, found = 0;

    if (array % 16 || array < PAGE || array >= ADDRESS_MOST)
        return 0;
    n = length_of(array);
    for (size_t i = 0; i < n; i += step) {
        step = n - i < AT_ONCE ? n - i : AT_ONCE;
        if (!pb_ownmem_read(some, array + i * sizeof *some, step * sizeof *some))
            return 0;
        for (size_t k = 0; k < step; k++) {
            if (!some[k].address)
                continue;
            if (!is_arena(&some[k], size))
                return 0;
            found++;
        }
    }
    return found;
}

/* The loaded file that an address is in. */
struct module {
    uintptr_t inside;
    uintptr_t from, to; /* all of it */
    struct {
        uintptr_t from, to;
    } data[SEGMENTS_MAX];
    size_t ndata;
};

static int look_at_module(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct module *m = arg, seen = {.inside = m->inside, .from = UINTPTR_MAX};
    bool found = false;

    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + p->p_vaddr, to = from + p->p_memsz;

        if (p->p_type != PT_LOAD)
            continue;
        seen.from = from < seen.from ? from : seen.from;
        seen.to = to > seen.to ? to : seen.to;
        found |= m->inside >= from && m->inside < to;
        if (p->p_flags & PF_W && seen.ndata < SEGMENTS_MAX) {
            seen.data[seen.ndata].from = (from + 7) & ~(uintptr_t)7;
            seen.data[seen.ndata++].to = to;
        }
    }
    if (found)
        *m = seen;
    return found;
}

static bool find_module(struct module *m, const void *inside)
{
    *m = (struct module){.inside = (uintptr_t)inside};
    return dl_iterate_phdr(look_at_module, m) == 1;
}

/* The variable among a module's data between two addresses; 0 when it is not there. */
static uintptr_t find_between(const struct module *m, uintptr_t from, uintptr_t to, size_t size)
{
    uintptr_t words[AT_ONCE];
    size_t n;

    for (uintptr_t at = from; at + sizeof *words <= to; at += n * sizeof *words) {
        n = (to - at) / sizeof *words < AT_ONCE ? (to - at) / sizeof *words : AT_ONCE;
        if (!pb_ownmem_read(words, at, n * sizeof *words))
            continue;
        for (size_t i = 0; i < n; i++) {
            bool own = words[i] >= m->from && words[i] < m->to;

            if (words[i] && !own && count_arenas(words[i], size))
                return at + i * sizeof *words;
        }
    }
    return 0;
}

double pb_heap_info_bytes(pb_heap_info_fn *ask)
{
    struct pb_heap_info info = ask();

    return (double)info.uordblks + (double)info.hblkhd;
}

/* Another malloc may have been put before the C library's; then its count does not move. */
pb_heap_info_fn *pb_heap_info_find(uint64_t *ret_ns)
{
    pb_heap_info_fn *ask = (pb_heap_info_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "mallinfo2");
    void *(*get)(size_t) = (void *(*)(size_t))(uintptr_t)dlsym(RTLD_DEFAULT, "malloc");
    void (*give)(void *) = (void (*)(void *))(uintptr_t)dlsym(RTLD_DEFAULT, "free");
    bool counts = false;

    *ret_ns = UINT64_MAX;
    for (int i = 0; i < TRIALS && ask && get && give; i++) {
        uint64_t began = pb_clock_ns(), took;
        double before = pb_heap_info_bytes(ask);
        void *block;

        took = pb_clock_ns() - began;
        *ret_ns = took < *ret_ns ? took : *ret_ns;
        block = get(TRIAL);
        /* Others give back what they have meanwhile. */
        counts |= block && pb_heap_info_bytes(ask) - before >= TRIAL;
        give(block);
    }
    return counts && *ret_ns <= SLOW_NS ? ask : NULL;
}

void pb_heap_find(struct pb_heap *h, const struct pb_py *py)
{
    struct module m;
    uint64_t ns;

    if (h->tries++ == 0)
        h->info = pb_heap_info_find(&ns);
    if (py->free_threaded || py->layout.arena_size <= 0 ||
        !find_module(&m, (const void *)(uintptr_t)py->PyList_Append))
        return;
    h->arena_size = (size_t)py->layout.arena_size;
    for (size_t i = 0; i < m.ndata && !h->arenas; i++)
        h->arenas = find_between(&m, m.data[i].from, m.data[i].to, h->arena_size);
}

double pb_heap_python(const struct pb_heap *h)
{
    uintptr_t array;
    size_t n = h->arenas && pb_ownmem_read(&array, h->arenas, sizeof array)
                   ? count_arenas(array, h->arena_size)
                   : 0;

    return n ? (double)n * (double)h->arena_size : -1;
}

double pb_heap_given(struct pb_heap *h, uint64_t now_ns)
{
    uint64_t began, took;

    if (!h->info)
        return -1;
    if (now_ns < h->info_due_ns)
        return h->given;
    began = pb_clock_ns();
    h->given = pb_heap_info_bytes(h->info);
    took = pb_clock_ns() - began;
    h->info_due_ns = now_ns + took * RARELY;
    /* Once it may have been us who had to wait for a processor. */
    h->slow = took > SLOWEST_NS ? h->slow + 1 : 0;
    if (h->slow == TRIALS)
        h->info = NULL;
    return h->given;
}
