/* elf_symbols.c - symbol tables of an ELF file, by its sections or by PT_DYNAMIC. */
#include "host/elf/elf.h"

#include <string.h>

#define SYMBOLS_MAX ((size_t)8 << 20) /* the largest libraries have two million */

struct dynamic {
    uint64_t symtab, strtab, strsz, hash, gnu_hash;
};

static void trim_strings(struct pb_elf_symbols *t)
{
    const char *last = t->str_len ? memrchr(t->str, 0, t->str_len) : NULL;

    t->str_len = last ? (size_t)(last - t->str) + 1 : 0;
}

static bool table_from_sections(const struct pb_elf *elf, uint32_t type, struct pb_elf_symbols *ret)
{
    struct pb_elf_range syms, str;

    for (size_t i = 0; i < elf->nsh; i++) {
        const Elf64_Shdr *sh = &elf->sh[i];

        if (sh->sh_type != type || sh->sh_link >= elf->nsh)
            continue;
        if (!pb_elf_section_bytes(elf, sh, &syms) ||
            !pb_elf_section_bytes(elf, &elf->sh[sh->sh_link], &str))
            return false;
        ret->syms = syms.data;
        ret->n = syms.size / sizeof(Elf64_Sym);
        ret->str = (const char *)str.data;
        ret->str_len = str.size;
        trim_strings(ret);
        return true;
    }
    return false;
}

static bool read_dynamic(const struct pb_elf *elf, struct dynamic *ret)
{
    struct pb_elf_range range;
    Elf64_Dyn d;

    memset(ret, 0, sizeof *ret);
    if (!pb_elf_segment(elf, PT_DYNAMIC, &range))
        return false;
    for (size_t off = 0; off + sizeof d <= range.size; off += sizeof d) {
        memcpy(&d, range.data + off, sizeof d);
        switch (d.d_tag) {
        case DT_NULL:
            return true;
        case DT_SYMTAB:
            ret->symtab = d.d_un.d_ptr;
            break;
        case DT_STRTAB:
            ret->strtab = d.d_un.d_ptr;
            break;
        case DT_STRSZ:
            ret->strsz = d.d_un.d_val;
            break;
        case DT_HASH:
            ret->hash = d.d_un.d_ptr;
            break;
        case DT_GNU_HASH:
            ret->gnu_hash = d.d_un.d_ptr;
            break;
        default:
            break;
        }
    }
    return true;
}

/* The dynamic symbols have no count of their own; the string table that follows bounds them. */
static bool table_from_dynamic(const struct pb_elf *elf, const struct dynamic *dyn,
                               struct pb_elf_symbols *ret)
{
    struct pb_elf_range syms, str;
    uint64_t bytes;

    if (!dyn->symtab || !dyn->strtab || !pb_elf_at(elf, dyn->symtab, &syms) ||
        !pb_elf_at(elf, dyn->strtab, &str) || dyn->strsz > str.size)
        return false;
    bytes = syms.size;
    if (dyn->hash) {
        struct pb_elf_range hash;
        uint32_t nchain;

        if (!pb_elf_at(elf, dyn->hash, &hash) || hash.size < 8)
            return false;
        memcpy(&nchain, hash.data + 4, sizeof nchain);
        if ((uint64_t)nchain * sizeof(Elf64_Sym) < bytes)
            bytes = (uint64_t)nchain * sizeof(Elf64_Sym);
    } else if (dyn->strtab > dyn->symtab && dyn->strtab - dyn->symtab < bytes) {
        bytes = dyn->strtab - dyn->symtab;
    }
    ret->syms = syms.data;
    ret->n = bytes / sizeof(Elf64_Sym);
    ret->str = (const char *)str.data;
    ret->str_len = dyn->strsz;
    trim_strings(ret);
    return true;
}

bool pb_elf_symbols(const struct pb_elf *elf, enum pb_elf_table table, struct pb_elf_symbols *ret)
{
    struct dynamic dyn;

    if (table == PB_ELF_SYMTAB ? !table_from_sections(elf, SHT_SYMTAB, ret)
                               : !table_from_sections(elf, SHT_DYNSYM, ret) &&
                                     !(read_dynamic(elf, &dyn) &&
                                       table_from_dynamic(elf, &dyn, ret)))
        return false;
    ret->n = ret->n < SYMBOLS_MAX ? ret->n : SYMBOLS_MAX;
    return true;
}

bool pb_elf_symbol(const struct pb_elf_symbols *t, size_t i, struct pb_elf_sym *ret)
{
    Elf64_Sym s;

    if (i >= t->n)
        return false;
    memcpy(&s, t->syms + i * sizeof s, sizeof s);
    if (s.st_shndx == SHN_UNDEF || s.st_name >= t->str_len)
        return false;
    ret->name = t->str + s.st_name;
    ret->vaddr = s.st_value;
    ret->size = s.st_size;
    ret->type = ELF64_ST_TYPE(s.st_info);
    return true;
}

bool pb_elf_each_symbol(const struct pb_elf *elf, enum pb_elf_table table,
                        bool (*visit)(const struct pb_elf_sym *sym, void *arg), void *arg)
{
    struct pb_elf_symbols t;
    struct pb_elf_sym sym;

    if (!pb_elf_symbols(elf, table, &t))
        return false;
    for (size_t i = 0; i < t.n; i++) {
        if (pb_elf_symbol(&t, i, &sym) && visit(&sym, arg))
            return true;
    }
    return false;
}

static uint32_t gnu_hash(const char *name)
{
    uint32_t h = 5381;

    for (const unsigned char *p = (const unsigned char *)name; *p; p++)
        h = h * 33 + *p;
    return h;
}

static uint32_t get_u32(const struct pb_elf_range *r, uint64_t off)
{
    uint32_t v = 0;

    if (pb_elf_inside(r->size, off, sizeof v))
        memcpy(&v, r->data + off, sizeof v);
    return v;
}

/* Walks one bucket of DT_GNU_HASH; the chain's last hash has bit 0 set. */
static bool find_by_gnu_hash(const struct pb_elf_symbols *t, const struct pb_elf_range *hash,
                             const char *name, struct pb_elf_sym *ret)
{
    uint32_t nbuckets = get_u32(hash, 0), symoffset = get_u32(hash, 4);
    uint64_t buckets = 16 + (uint64_t)get_u32(hash, 8) * 8;
    uint64_t chains = buckets + (uint64_t)nbuckets * 4;
    uint32_t h = gnu_hash(name);
    uint64_t i;

    if (nbuckets == 0 || chains > hash->size)
        return false;
    i = get_u32(hash, buckets + (uint64_t)(h % nbuckets) * 4);
    if (i < symoffset)
        return false;
    for (; i < t->n; i++) {
        uint64_t at = chains + (i - symoffset) * 4;
        uint32_t entry = get_u32(hash, at);

        if (!pb_elf_inside(hash->size, at, 4))
            return false;
        if ((entry | 1) == (h | 1) && pb_elf_symbol(t, i, ret) && strcmp(ret->name, name) == 0)
            return true;
        if (entry & 1)
            return false;
    }
    return false;
}

static bool find_linear(const struct pb_elf_symbols *t, const char *name, struct pb_elf_sym *ret)
{
    for (size_t i = 0; i < t->n; i++) {
        if (pb_elf_symbol(t, i, ret) && strcmp(ret->name, name) == 0)
            return true;
    }
    return false;
}

bool pb_elf_find_export(const struct pb_elf *elf, const char *name, struct pb_elf_sym *ret)
{
    struct pb_elf_symbols t;
    struct dynamic dyn;
    struct pb_elf_range hash;
    struct pb_elf_sym sym;
    bool hashed;

    if (!pb_elf_symbols(elf, PB_ELF_DYNSYM, &t))
        return false;
    hashed = read_dynamic(elf, &dyn) && dyn.gnu_hash && pb_elf_at(elf, dyn.gnu_hash, &hash) &&
             hash.size >= 16;
    if (!(hashed ? find_by_gnu_hash(&t, &hash, name, &sym) : find_linear(&t, name, &sym)))
        return false;
    *ret = sym;
    return true;
}

bool pb_elf_find_symbol(const struct pb_elf *elf, const char *name, struct pb_elf_sym *ret)
{
    struct pb_elf_symbols t;
    struct pb_elf_sym sym;

    if (pb_elf_find_export(elf, name, ret))
        return true;
    if (pb_elf_symbols(elf, PB_ELF_SYMTAB, &t) && find_linear(&t, name, &sym)) {
        *ret = sym;
        return true;
    }
    return false;
}
