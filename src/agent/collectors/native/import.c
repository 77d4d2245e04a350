#include "agent/collectors/native/import.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "agent/arch/symver.h"
#include "agent/collectors/native/import_tables.h"

/* What is looked for, and what was found. */
struct search {
    const char *library, *symbol;
    uintptr_t slot; /* 0: none */
    bool sealed;
};

static uintptr_t find_in(const struct pb_import_tables *t, const ElfW(Rela) *list, size_t n,
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

static int look_at(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct search *s = arg;
    const char *name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    struct pb_import_tables t;
    uintptr_t offset;

    (void)size;
    if (!name || strcmp(name + 1, s->library) != 0 || !pb_import_header(info, PT_DYNAMIC))
        return 0;
    if (!pb_import_tables_read(info, &t))
        return 1;
    offset = find_in(&t, t.calls, t.ncalls, s->symbol);
    if (!offset) /* built to call through the table of data */
        offset = find_in(&t, t.others, t.nothers, s->symbol);
    if (!offset || offset % sizeof(void *) || !pb_import_is_writable(info, offset))
        return 1;
    s->sealed = pb_import_is_sealed(info, offset);
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
    i->original = handle ? dlsym(handle, symbol) : NULL;
    dl_iterate_phdr(look_at, &s);
    if (!s.slot || !i->original)
        return false;
    i->slot = (void *)s.slot;
    i->sealed = s.sealed;
    return true;
}

bool pb_import_install(struct pb_import *i, void *ours)
{
    i->ours = ours;
    i->installed = i->slot && pb_import_write(i->slot, i->sealed, ours);
    return i->installed;
}

bool pb_import_is_installed(const struct pb_import *i)
{
    return i->installed && atomic_load(i->slot) == i->ours;
}

void pb_import_restore(struct pb_import *i)
{
    if (pb_import_is_installed(i))
        pb_import_write(i->slot, i->sealed, i->original);
    i->installed = false;
}
