#include "host/process/core_notes.h"

#include <elf.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>

#define WORD sizeof(uint64_t)

static uint64_t word(const char *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

static int compare_threads(const void *x, const void *y)
{
    const struct pb_core_thread *a = x, *b = y;

    return a->tid < b->tid ? -1 : a->tid > b->tid;
}

static int compare_mapped(const void *x, const void *y)
{
    const struct pb_core_mapped *a = x, *b = y;

    return a->start < b->start ? -1 : a->start > b->start;
}

static void add_thread(struct pb_core_notes *n, const char *p, size_t len, size_t max,
                       struct pb_arena *a)
{
    struct elf_prstatus status;

    if (len < sizeof status)
        return;
    memcpy(&status, p, sizeof status);
    if (!n->threads) {
        n->threads = PB_NEW_N(a, struct pb_core_thread, max + 1);
        n->first = status.pr_pid;
        n->signal = status.pr_cursig;
    }
    if (n->nthreads < max && status.pr_pid > 0)
        n->threads[n->nthreads++] = (struct pb_core_thread){
            status.pr_pid, p + offsetof(struct elf_prstatus, pr_reg), sizeof status.pr_reg};
}

static void set_process(struct pb_core_notes *n, const char *p, size_t len, struct pb_arena *a)
{
    struct elf_prpsinfo info;

    if (len < sizeof info)
        return;
    memcpy(&info, p, sizeof info);
    n->pid = info.pr_pid;
    n->command = pb_arena_strndup(a, info.pr_psargs,
                                  strnlen(info.pr_psargs, sizeof info.pr_psargs));
}

/* Mappings of one file mostly stand one behind the other. */
static size_t path_number(struct pb_core_notes *n, const char *path)
{
    if (!n->npaths || strcmp(n->paths[n->npaths - 1], path) != 0)
        n->paths[n->npaths++] = path;
    return n->npaths - 1;
}

/* Count, page size, count times start, end and offset in pages, then as many names. */
static void set_files(struct pb_core_notes *n, char *p, size_t len, struct pb_arena *a)
{
    uint64_t count = len >= 2 * WORD ? word(p) : 0, page = count ? word(p + WORD) : 0;
    char *name, *end = p + len;

    if (n->mapped || !count || count > (len - 2 * WORD) / (3 * WORD))
        return;
    n->mapped = PB_NEW_N(a, struct pb_core_mapped, count + 1);
    n->paths = PB_NEW_N(a, const char *, count + 1);
    name = p + (2 + 3 * count) * WORD;
    for (uint64_t i = 0; i < count && name < end; i++) {
        const char *entry = p + (2 + 3 * i) * WORD;
        char *stop = memchr(name, 0, (size_t)(end - name));

        if (!stop)
            break;
        if (name[0] == '/')
            n->mapped[n->nmapped++] = (struct pb_core_mapped){
                word(entry), word(entry + WORD), word(entry + 2 * WORD) * page,
                path_number(n, name)};
        name = stop + 1;
    }
    qsort(n->mapped, n->nmapped, sizeof *n->mapped, compare_mapped);
}

static size_t aligned(size_t n)
{
    return (n + 3) & ~(size_t)3;
}

void pb_core_notes_parse(struct pb_core_notes *n, char *bytes, size_t len, struct pb_arena *a)
{
    size_t at = 0;
    Elf64_Nhdr h;

    while (len - at >= sizeof h) {
        size_t data;

        memcpy(&h, bytes + at, sizeof h);
        at += sizeof h;
        if (h.n_namesz > len - at || aligned(h.n_namesz) > len - at)
            break;
        data = at + aligned(h.n_namesz);
        if (h.n_descsz > len - data)
            break;
        if (h.n_type == NT_PRSTATUS)
            add_thread(n, bytes + data, h.n_descsz, len / sizeof(struct elf_prstatus), a);
        else if (h.n_type == NT_PRPSINFO)
            set_process(n, bytes + data, h.n_descsz, a);
        else if (h.n_type == NT_FILE)
            set_files(n, bytes + data, h.n_descsz, a);
        if (aligned(h.n_descsz) > len - data)
            break;
        at = data + aligned(h.n_descsz);
    }
    if (n->nthreads)
        qsort(n->threads, n->nthreads, sizeof *n->threads, compare_threads);
}

const struct pb_core_mapped *pb_core_notes_find(const struct pb_core_notes *n, uint64_t addr)
{
    size_t lo = 0, hi = n->nmapped;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (n->mapped[mid].end <= addr)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n->nmapped && n->mapped[lo].start <= addr ? &n->mapped[lo] : NULL;
}
