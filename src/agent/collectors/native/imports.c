#include "agent/collectors/native/imports.h"

#include <stdatomic.h>
#include <string.h>

#include "agent/collectors/native/import_tables.h"

/* Entries of one library's tables that lead to functions of the list. */
enum { ENTRIES_MAX = 64 };

struct entry {
    void *_Atomic *slot;
    const struct pb_import_swap *swap;
    bool sealed;
    bool call; /* for calls; else for the address */
};

struct library {
    const struct dl_phdr_info *info;
    struct pb_import_tables tables;
    struct entry entries[ENTRIES_MAX];
    size_t n;
    bool foreign; /* one of the functions is called somewhere else */
};

struct walk {
    struct pb_imports *imports;
    bool restore;
    size_t libraries;
};

static bool is_inside(const struct dl_phdr_info *info, uintptr_t address)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + p->p_vaddr;

        if (p->p_type == PT_LOAD && address >= from && address < from + p->p_memsz)
            return true;
    }
    return false;
}

static bool is_spared(const struct pb_imports *im, const struct dl_phdr_info *info)
{
    for (size_t i = 0; i < PB_IMPORTS_SPARED; i++)
        if (im->spared[i] && is_inside(info, (uintptr_t)im->spared[i]))
            return true;
    return false;
}

static const struct pb_import_swap *find_swap(const struct pb_imports *im,
                                              const struct pb_import_tables *t,
                                              const ElfW(Sym) *symbol)
{
    for (size_t i = 0; i < im->nswaps; i++) {
        size_t size = strlen(im->swaps[i].symbol) + 1;

        if (im->swaps[i].original && symbol->st_name < t->names_size &&
            t->names_size - symbol->st_name >= size &&
            !memcmp(t->names + symbol->st_name, im->swaps[i].symbol, size))
            return &im->swaps[i];
    }
    return NULL;
}

/* A call that was not made yet leads to the library's own code, which asks the loader. */
static bool is_unresolved(const struct library *l, const ElfW(Sym) *symbol, uintptr_t now)
{
    return symbol->st_shndx == SHN_UNDEF && is_inside(l->info, now);
}

static void find_entries(const struct pb_imports *im, struct library *l, bool calls)
{
    const ElfW(Rela) *list = calls ? l->tables.calls : l->tables.others;
    size_t n = calls ? l->tables.ncalls : l->tables.nothers;

    for (size_t i = 0; i < n; i++) {
        const ElfW(Sym) *symbol = &l->tables.symbols[ELF64_R_SYM(list[i].r_info)];
        const struct pb_import_swap *swap;
        uintptr_t offset = list[i].r_offset;
        void *_Atomic *slot = (void *)(l->info->dlpi_addr + offset);
        void *now;

        if (!ELF64_R_SYM(list[i].r_info) || list[i].r_addend ||
            !(swap = find_swap(im, &l->tables, symbol)) || offset % sizeof(void *) ||
            !pb_import_is_writable(l->info, offset))
            continue;
        now = atomic_load(slot);
        if (l->n == ENTRIES_MAX ||
            (now != swap->original && now != swap->target && now != swap->ours &&
             !is_unresolved(l, symbol, (uintptr_t)now)))
            l->foreign = true;
        else
            l->entries[l->n++] = (struct entry){slot, swap, pb_import_is_sealed(l->info, offset),
                                                calls};
    }
}

static int look_at(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct walk *w = arg;
    struct library l = {.info = info};
    bool called = false;

    (void)size;
    if (!w->restore)
        w->imports->loaded = info->dlpi_adds;
    if (is_spared(w->imports, info) || !pb_import_tables_read(info, &l.tables))
        return 0;
    find_entries(w->imports, &l, true);
    find_entries(w->imports, &l, false);
    for (size_t i = 0; i < l.n && (w->restore || !l.foreign); i++) {
        struct entry *e = &l.entries[i];
        void *now = atomic_load(e->slot);

        if (w->restore && now == e->swap->ours)
            pb_import_write(e->slot, e->sealed, e->call ? e->swap->target : e->swap->original);
        else if (!w->restore)
            called |= now == e->swap->ours || pb_import_write(e->slot, e->sealed, e->swap->ours);
    }
    w->libraries += called;
    return 0;
}

/* Of the library that an address is in: what its own calls of the function lead to. */
struct stub {
    void *address;
    const char *symbol;
    void *target; /* NULL: nothing else */
};

static int look_behind(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct stub *s = arg;
    struct pb_import_swap swap = {s->symbol, s->address, s->address, s->address};
    struct pb_imports only = {.swaps = &swap, .nswaps = 1};
    struct pb_import_tables t;

    (void)size;
    if (!is_inside(info, (uintptr_t)s->address))
        return 0;
    if (!pb_import_tables_read(info, &t))
        return 1;
    for (size_t i = 0; i < t.ncalls + t.nothers && !s->target; i++) {
        const ElfW(Rela) *r = i < t.ncalls ? &t.calls[i] : &t.others[i - t.ncalls];
        const ElfW(Sym) *symbol = &t.symbols[ELF64_R_SYM(r->r_info)];
        void *now;

        if (!ELF64_R_SYM(r->r_info) || r->r_addend || symbol->st_shndx != SHN_UNDEF ||
            !find_swap(&only, &t, symbol) || !pb_import_is_writable(info, r->r_offset))
            continue;
        now = *(void *_Atomic *)(info->dlpi_addr + r->r_offset);
        s->target = is_inside(info, (uintptr_t)now) ? NULL : now;
    }
    return 1;
}

void *pb_imports_target(void *address, const char *symbol)
{
    struct stub s = {address, symbol, NULL};

    if (address)
        dl_iterate_phdr(look_behind, &s);
    return s.target ? s.target : address;
}

size_t pb_imports_install(struct pb_imports *i)
{
    struct walk w = {.imports = i};

    dl_iterate_phdr(look_at, &w);
    return w.libraries;
}

void pb_imports_restore(struct pb_imports *i)
{
    struct walk w = {.imports = i, .restore = true};

    dl_iterate_phdr(look_at, &w);
}

static int count_loaded(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    *(unsigned long long *)arg = info->dlpi_adds;
    return 1;
}

bool pb_imports_are_stale(const struct pb_imports *i)
{
    unsigned long long loaded = i->loaded;

    dl_iterate_phdr(count_loaded, &loaded);
    return loaded != i->loaded;
}
