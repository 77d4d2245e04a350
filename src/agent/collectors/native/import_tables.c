#include "agent/collectors/native/import_tables.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

/* Most loaders write addresses there, some leave offsets. */
static uintptr_t address(const struct dl_phdr_info *info, uintptr_t v)
{
    return v >= info->dlpi_addr ? v : v + info->dlpi_addr;
}

const ElfW(Phdr) *pb_import_header(const struct dl_phdr_info *info, uint32_t type)
{
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == type)
            return &info->dlpi_phdr[i];
    return NULL;
}

bool pb_import_tables_read(const struct dl_phdr_info *info, struct pb_import_tables *t)
{
    const ElfW(Phdr) *dynamic = pb_import_header(info, PT_DYNAMIC);
    size_t call_bytes = 0, other_bytes = 0, relative = 0;
    bool with_addends = true;

    *t = (struct pb_import_tables){0};
    if (!dynamic)
        return false;
    for (const ElfW(Dyn) *d = (const void *)(info->dlpi_addr + dynamic->p_vaddr);
         d->d_tag != DT_NULL; d++) {
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
        case DT_RELACOUNT: relative = d->d_un.d_val; break;
        default: break;
        }
    }
    t->ncalls = t->calls && with_addends ? call_bytes / sizeof *t->calls : 0;
    t->nothers = t->others ? other_bytes / sizeof *t->others : 0;
    relative = relative < t->nothers ? relative : t->nothers;
    t->others += t->others ? relative : 0;
    t->nothers -= relative;
    return t->symbols && t->names && t->ncalls < PB_IMPORT_RELOCATIONS_MAX &&
           t->nothers < PB_IMPORT_RELOCATIONS_MAX;
}

bool pb_import_is_writable(const struct dl_phdr_info *info, uintptr_t offset)
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
bool pb_import_is_sealed(const struct dl_phdr_info *info, uintptr_t offset)
{
    const ElfW(Phdr) *p = pb_import_header(info, PT_GNU_RELRO);
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

    return p && offset >= (p->p_vaddr & ~(page - 1)) &&
           offset < ((p->p_vaddr + p->p_memsz) & ~(page - 1));
}

bool pb_import_write(void *_Atomic *slot, bool sealed, void *value)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *start = (void *)((uintptr_t)slot & ~(page - 1));

    if (sealed && mprotect(start, page, PROT_READ | PROT_WRITE) < 0)
        return false;
    atomic_store(slot, value);
    if (sealed)
        mprotect(start, page, PROT_READ);
    return true;
}
