#include "agent/collect/import.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/arch/symver.h"

#define RELOCATIONS_MAX (1u << 22)

/* What is looked for, and what was found. */
struct search {
    const char *library, *symbol;
    uintptr_t slot; /* 0: none */
    bool sealed;
};

/* The loader's tables of one library. */
struct tables {
    const ElfW(Sym) *symbols;
    const char *names;
    size_t names_size;
    const ElfW(Rela) *calls, *others;
    size_t ncalls, nothers;
};

/* Most loaders write addresses there, some leave offsets. */
static uintptr_t address(const struct dl_phdr_info *info, uintptr_t v)
{
    return v >= info->dlpi_addr ? v : v + info->dlpi_addr;
}

static bool read_tables(const struct dl_phdr_info *info, const ElfW(Dyn) *d, struct tables *t)
{
    size_t call_bytes = 0, other_bytes = 0;
    bool with_addends = true;

    for (; d->d_tag != DT_NULL; d++) {
        uintptr_t at = address(info, d->d_un.d_ptr);

        switch (d->d_tag) {
        case DT_SYMTAB: t->symbols = (const void *)at; break;
        case DT_STRTAB: t->names = (const void *)at; break;
        case DT_STRSZ: t->names_size = d->d_un.d_val; break;
        case DT_JMPREL: t->calls = (const void *)at; break;
        case DT_PLTRELSZ: call_bytes = d->d_un.d_val; break;
        case DT_PLTREL: with_addends = d->d_un.d_val == DT_RELA; break;
        case DT_RELA: t->others = (const void *)at; break;
        case DT_RELASZ: other_bytes = d->d_un.d_val; break;
        default: break;
        }
    }
    t->ncalls = t->calls && with_addends ? call_bytes / sizeof *t->calls : 0;
    t->nothers = t->others ? other_bytes / sizeof *t->others : 0;
    return t->symbols && t->names && t->ncalls < RELOCATIONS_MAX && t->nothers < RELOCATIONS_MAX;
}

static uintptr_t find_in(const struct tables *t, const ElfW(Rela) *list, size_t n,
                         const char *symbol)
{
    size_t size = strlen(symbol) + 1;

    for (size_t i = 0; i < n; i++) {
        const ElfW(Sym) *s = &t->symbols[ELF64_R_SYM(list[i].r_info)];

        if (ELF64_R_SYM(list[i].r_info) && !list[i].r_addend && s->st_name < t->names_size &&
            t->names_size - s->st_name >= size && !memcmp(t->names + s->st_name, symbol, size))
            return list[i].r_offset;
    }
    return 0;
}

static const ElfW(Phdr) *header(const struct dl_phdr_info *info, uint32_t type)
{
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == type)
            return &info->dlpi_phdr[i];
    return NULL;
}

static bool is_writable(const struct dl_phdr_info *info, uintptr_t offset)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];

        if (p->p_type == PT_LOAD && p->p_flags & PF_W && offset >= p->p_vaddr &&
            offset + sizeof(void *) <= p->p_vaddr + p->p_memsz)
            return true;
    }
    return false;
}

/* The loader makes whole pages read-only: what is on the last one in part stays writable. */
static bool is_sealed(const ElfW(Phdr) *p, uintptr_t offset)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

    return p && offset >= (p->p_vaddr & ~(page - 1)) &&
           offset < ((p->p_vaddr + p->p_memsz) & ~(page - 1));
}

static int look_at(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct search *s = arg;
    const char *name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    const ElfW(Phdr) *dynamic = header(info, PT_DYNAMIC), *sealed = header(info, PT_GNU_RELRO);
    struct tables t = {0};
    uintptr_t offset;

    (void)size;
    if (!name || strcmp(name + 1, s->library) != 0 || !dynamic)
        return 0;
    if (!read_tables(info, (const void *)(info->dlpi_addr + dynamic->p_vaddr), &t))
        return 1;
    offset = find_in(&t, t.calls, t.ncalls, s->symbol);
    if (!offset) /* built to call through the table of data */
        offset = find_in(&t, t.others, t.nothers, s->symbol);
    if (!offset || offset % sizeof(void *) || !is_writable(info, offset))
        return 1;
    s->sealed = is_sealed(sealed, offset);
    s->slot = info->dlpi_addr + offset;
    return 1;
}

bool pb_import_exists(const char *library, const char *symbol)
{
    struct search s = {.library = library, .symbol = symbol};

    dl_iterate_phdr(look_at, &s);
    return s.slot != 0;
}

bool pb_import_find(struct pb_import *i, const char *library, const char *symbol,
                    const char *exported_by)
{
    struct search s = {.library = library, .symbol = symbol};
    /* Kept open: what is called must stay. */
    void *handle = dlopen(exported_by, RTLD_NOLOAD | RTLD_LAZY);

    /* What is in the table may still be the loader's, which would put its own answer there. */
    i->was = handle ? dlsym(handle, symbol) : NULL;
    dl_iterate_phdr(look_at, &s);
    if (!s.slot || !i->was)
        return false;
    i->slot = (void *)s.slot;
    i->sealed = s.sealed;
    return true;
}

static bool write_slot(struct pb_import *i, void *value)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *start = (void *)((uintptr_t)i->slot & ~(page - 1));

    if (i->sealed && mprotect(start, page, PROT_READ | PROT_WRITE) < 0)
        return false;
    atomic_store(i->slot, value);
    if (i->sealed)
        mprotect(start, page, PROT_READ);
    return true;
}

bool pb_import_put(struct pb_import *i, void *ours)
{
    i->ours = ours;
    i->in = i->slot && write_slot(i, ours);
    return i->in;
}

bool pb_import_is_in(const struct pb_import *i)
{
    return i->in && atomic_load(i->slot) == i->ours;
}

void pb_import_take_back(struct pb_import *i)
{
    if (pb_import_is_in(i))
        write_slot(i, i->was);
    i->in = false;
}
