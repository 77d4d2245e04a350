#include "host/process/mempages.h"

/* Ranges that reach over more pages gain nothing from copies. */
#define SPAN_MAX (2 * PB_MEM_PAGE)
#define LOAD_MAX 16
#define AHEAD_MAX 32 /* ranges whose pages are loaded together */
#define LOADED_AT_ONCE (AHEAD_MAX * (SPAN_MAX / PB_MEM_PAGE + 1))
#define HEAD 16 /* of a slot: the page's address, and room to keep the bytes aligned */

static uint8_t **slot_of(struct pb_mem_pages *p, uint64_t page)
{
    size_t i = (size_t)(page / PB_MEM_PAGE * UINT64_C(0x9e3779b97f4a7c15) >> 32);

    for (;; i++) {
        uint8_t **slot = &p->slots[i % PB_MEM_PAGES_SLOTS];
        uint64_t addr;

        if (!*slot)
            return slot;
        memcpy(&addr, *slot, sizeof addr);
        if (addr == page)
            return slot;
    }
}

static void forget(struct pb_mem_pages *p)
{
    pb_arena_finish(&p->arena);
    memset(p->slots, 0, sizeof p->slots);
    p->n = 0;
}

/* Reads these pages by one call; one that cannot be read is left out, with those behind it. */
static void load(struct pb_mem_pages *p, const uint64_t *pages, size_t n)
{
    struct pb_mem_range ranges[LOAD_MAX];
    uint8_t *copies[LOAD_MAX];
    size_t got;

    for (size_t i = 0; i < n; i++) {
        copies[i] = pb_arena_alloc(&p->arena, HEAD + PB_MEM_PAGE);
        memcpy(copies[i], &pages[i], sizeof pages[i]);
        ranges[i] = (struct pb_mem_range){pages[i], copies[i] + HEAD, PB_MEM_PAGE};
    }
    got = p->source->read(p->source, ranges, n);
    for (size_t i = 0; i < got; i++)
        *slot_of(p, pages[i]) = copies[i];
    p->n += n; /* also those that were not got: their memory is taken */
}

static bool has(const uint64_t *v, size_t n, uint64_t page)
{
    while (n > 0)
        if (v[--n] == page)
            return true;
    return false;
}

static void load_missing(struct pb_mem_pages *p, const struct pb_mem_range *v, size_t n)
{
    uint64_t missing[LOAD_MAX];
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t page = v[i].addr / PB_MEM_PAGE * PB_MEM_PAGE;

        if (!v[i].len || v[i].len > SPAN_MAX || v[i].addr > UINT64_MAX - v[i].len)
            continue;
        for (; page < v[i].addr + v[i].len; page += PB_MEM_PAGE) {
            if (*slot_of(p, page) || has(missing, count, page))
                continue;
            if (count == LOAD_MAX) {
                load(p, missing, count);
                count = 0;
            }
            missing[count++] = page;
        }
    }
    if (count)
        load(p, missing, count);
}

static bool copy(struct pb_mem_pages *p, const struct pb_mem_range *r)
{
    size_t done = 0;

    if (r->len > SPAN_MAX || r->addr > UINT64_MAX - r->len)
        return false;
    while (done < r->len) {
        uint64_t in_page = (r->addr + done) % PB_MEM_PAGE;
        const uint8_t *page = *slot_of(p, r->addr + done - in_page);
        size_t part = PB_MEM_PAGE - (size_t)in_page;

        if (!page)
            return false;
        if (part > r->len - done)
            part = r->len - done;
        memcpy((uint8_t *)r->buf + done, page + HEAD + in_page, part);
        done += part;
    }
    return true;
}

static size_t read_pages(struct pb_mem *mem, const struct pb_mem_range *v, size_t n)
{
    struct pb_mem_pages *p = mem->arg;

    for (size_t i = 0; i < n; i++) {
        if (copy(p, &v[i]))
            continue;
        if (p->n + LOADED_AT_ONCE > PB_MEM_PAGES_MAX)
            forget(p);
        load_missing(p, v + i, n - i < AHEAD_MAX ? n - i : AHEAD_MAX);
        if (!copy(p, &v[i]) && p->source->read(p->source, &v[i], 1) != 1)
            return i;
    }
    return n;
}

void pb_mem_pages_init(struct pb_mem_pages *p, struct pb_mem *source)
{
    memset(p, 0, sizeof *p);
    p->mem = (struct pb_mem){.read = read_pages, .pid = source->pid, .arg = p};
    p->source = source;
}

void pb_mem_pages_finish(struct pb_mem_pages *p)
{
    pb_arena_finish(&p->arena);
}
