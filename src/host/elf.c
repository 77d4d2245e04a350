/* elf.c - a read-only view of one ELF file. Every offset is checked before use. */
#include "host/elf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE_MASK 4095u

struct dynamic {
    uint64_t symtab, strtab, strsz, hash, gnu_hash;
};

static bool inside(size_t size, uint64_t off, uint64_t len)
{
    return off <= size && len <= size - off;
}

static void read_program_headers(struct pb_elf *elf)
{
    for (size_t i = 0; i < elf->nph; i++) {
        if (elf->ph[i].p_type == PT_LOAD) {
            elf->base_vaddr = (elf->ph[i].p_vaddr - elf->ph[i].p_offset) & ~(uint64_t)PAGE_MASK;
            return;
        }
    }
}

/*
 * Tables at odd offsets are legal to find (tools that rewrite files leave
 * them) but not to read through a struct pointer: those are copied.
 */
static const void *aligned_table(struct pb_elf *elf, uint64_t off, size_t bytes, void **copy)
{
    const uint8_t *at = elf->data + off;

    if ((uintptr_t)at % _Alignof(Elf64_Shdr) == 0)
        return at;
    *copy = malloc(bytes ? bytes : 1);
    if (*copy)
        memcpy(*copy, at, bytes);
    return *copy;
}

/* A damaged section table only means that there is none. */
static void read_sections(struct pb_elf *elf)
{
    uint64_t off = elf->eh->e_shoff, n = elf->eh->e_shnum, names = elf->eh->e_shstrndx;
    Elf64_Shdr first;

    if (off == 0 || elf->eh->e_shentsize != sizeof first || !inside(elf->size, off, sizeof first))
        return;
    memcpy(&first, elf->data + off, sizeof first);
    if (n == 0)
        n = first.sh_size;
    if (names == SHN_XINDEX)
        names = first.sh_link;
    if (n > elf->size / sizeof first || !inside(elf->size, off, n * sizeof first))
        return;
    elf->sh = aligned_table(elf, off, n * sizeof first, &elf->sh_copy);
    if (!elf->sh)
        return;
    elf->nsh = n;
    if (names < n && inside(elf->size, elf->sh[names].sh_offset, elf->sh[names].sh_size)) {
        elf->shstr = (const char *)elf->data + elf->sh[names].sh_offset;
        elf->shstr_len = elf->sh[names].sh_size;
    }
}

static int parse(struct pb_elf *elf, struct pb_err *err)
{
    const Elf64_Ehdr *eh;

    if (elf->size < sizeof *eh || memcmp(elf->data, ELFMAG, SELFMAG) != 0)
        return pb_err_set(err, PB_FAIL, "not an ELF file");
    if (elf->data[EI_CLASS] != ELFCLASS64)
        return pb_err_set(err, PB_FAIL, "a 32-bit ELF file");
    if (elf->data[EI_DATA] != ELFDATA2LSB)
        return pb_err_set(err, PB_FAIL, "a big-endian ELF file");
    eh = aligned_table(elf, 0, sizeof *eh, &elf->eh_copy);
    if (!eh)
        return pb_err_set(err, PB_FAIL, "out of memory");
    elf->eh = eh;
    if (eh->e_phnum != 0) {
        size_t bytes = eh->e_phnum * sizeof(Elf64_Phdr);

        if (eh->e_phentsize != sizeof(Elf64_Phdr) || !inside(elf->size, eh->e_phoff, bytes))
            return pb_err_set(err, PB_FAIL, "program headers outside the file");
        elf->ph = aligned_table(elf, eh->e_phoff, bytes, &elf->ph_copy);
        if (!elf->ph)
            return pb_err_set(err, PB_FAIL, "out of memory");
        elf->nph = eh->e_phnum;
    }
    read_program_headers(elf);
    read_sections(elf);
    return 0;
}

int pb_elf_from_memory(struct pb_elf *elf, const void *data, size_t size, struct pb_err *err)
{
    memset(elf, 0, sizeof *elf);
    elf->data = data;
    elf->size = size;
    if (parse(elf, err) < 0) {
        pb_elf_close(elf);
        return -1;
    }
    return 0;
}

int pb_elf_open_fd(struct pb_elf *elf, int fd, struct pb_err *err)
{
    struct stat st;
    void *data;

    memset(elf, 0, sizeof *elf);
    if (fstat(fd, &st) < 0)
        return pb_err_set(err, PB_FAIL, "stat: %s", strerror(errno));
    if (!S_ISREG(st.st_mode) || st.st_size <= 0)
        return pb_err_set(err, PB_FAIL, "not an ELF file");
    data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return pb_err_set(err, PB_FAIL, "mmap: %s", strerror(errno));
    elf->data = data;
    elf->size = (size_t)st.st_size;
    elf->mapped = true;
    if (parse(elf, err) < 0) {
        pb_elf_close(elf);
        return -1;
    }
    return 0;
}

int pb_elf_open(struct pb_elf *elf, const char *path, struct pb_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int rc;

    memset(elf, 0, sizeof *elf);
    if (fd < 0)
        return pb_err_set(err, errno == EACCES ? PB_DENIED : PB_FAIL, "%s: %s", path,
                          strerror(errno));
    rc = pb_elf_open_fd(elf, fd, err);
    close(fd);
    return rc < 0 ? pb_err_prefix(err, "%s", path) : 0;
}

void pb_elf_close(struct pb_elf *elf)
{
    if (!elf)
        return;
    if (elf->mapped)
        munmap((void *)(uintptr_t)elf->data, elf->size);
    free(elf->eh_copy);
    free(elf->ph_copy);
    free(elf->sh_copy);
    memset(elf, 0, sizeof *elf);
}

static bool section_name_is(const struct pb_elf *elf, const Elf64_Shdr *sh, const char *name)
{
    size_t len = strlen(name) + 1;

    return sh->sh_name < elf->shstr_len && len <= elf->shstr_len - sh->sh_name &&
           memcmp(elf->shstr + sh->sh_name, name, len) == 0;
}

/* Sections without bytes in the file, and compressed ones, count as absent. */
static bool section_range(const struct pb_elf *elf, const Elf64_Shdr *sh, struct pb_elf_range *ret)
{
    if (sh->sh_type == SHT_NOBITS || (sh->sh_flags & SHF_COMPRESSED) ||
        !inside(elf->size, sh->sh_offset, sh->sh_size))
        return false;
    ret->data = elf->data + sh->sh_offset;
    ret->size = sh->sh_size;
    ret->vaddr = sh->sh_addr;
    return true;
}

bool pb_elf_section(const struct pb_elf *elf, const char *name, struct pb_elf_range *ret)
{
    for (size_t i = 0; i < elf->nsh; i++) {
        if (section_name_is(elf, &elf->sh[i], name))
            return section_range(elf, &elf->sh[i], ret);
    }
    return false;
}

bool pb_elf_segment(const struct pb_elf *elf, uint32_t type, struct pb_elf_range *ret)
{
    for (size_t i = 0; i < elf->nph; i++) {
        const Elf64_Phdr *ph = &elf->ph[i];

        if (ph->p_type != type)
            continue;
        if (!inside(elf->size, ph->p_offset, ph->p_filesz))
            return false;
        ret->data = elf->data + ph->p_offset;
        ret->size = ph->p_filesz;
        ret->vaddr = ph->p_vaddr;
        return true;
    }
    return false;
}

bool pb_elf_at(const struct pb_elf *elf, uint64_t vaddr, struct pb_elf_range *ret)
{
    for (size_t i = 0; i < elf->nph; i++) {
        const Elf64_Phdr *ph = &elf->ph[i];

        if (ph->p_type != PT_LOAD || vaddr < ph->p_vaddr || vaddr - ph->p_vaddr >= ph->p_filesz)
            continue;
        if (!inside(elf->size, ph->p_offset, ph->p_filesz))
            continue;
        ret->data = elf->data + ph->p_offset + (vaddr - ph->p_vaddr);
        ret->size = ph->p_filesz - (vaddr - ph->p_vaddr);
        ret->vaddr = vaddr;
        return true;
    }
    return false;
}

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
        if (!section_range(elf, sh, &syms) || !section_range(elf, &elf->sh[sh->sh_link], &str))
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

    if (table == PB_ELF_SYMTAB)
        return table_from_sections(elf, SHT_SYMTAB, ret);
    return table_from_sections(elf, SHT_DYNSYM, ret) ||
           (read_dynamic(elf, &dyn) && table_from_dynamic(elf, &dyn, ret));
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

    if (inside(r->size, off, sizeof v))
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

        if (!inside(hash->size, at, 4))
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

/* Looks for the GNU build id among the notes of one segment. */
static size_t build_id_in(const uint8_t *p, size_t size, uint8_t *ret, size_t cap)
{
    Elf64_Nhdr nh;

    for (size_t off = 0; inside(size, off, sizeof nh);) {
        uint64_t name = off + sizeof nh, desc, next;

        memcpy(&nh, p + off, sizeof nh);
        desc = name + (((uint64_t)nh.n_namesz + 3) & ~(uint64_t)3);
        next = desc + (((uint64_t)nh.n_descsz + 3) & ~(uint64_t)3);
        if (!inside(size, desc, nh.n_descsz))
            return 0;
        if (nh.n_type == NT_GNU_BUILD_ID && nh.n_namesz == 4 && memcmp(p + name, "GNU", 4) == 0 &&
            nh.n_descsz <= cap) {
            memcpy(ret, p + desc, nh.n_descsz);
            return nh.n_descsz;
        }
        off = next;
    }
    return 0;
}

size_t pb_elf_build_id(const struct pb_elf *elf, uint8_t *ret, size_t cap)
{
    for (size_t i = 0; i < elf->nph; i++) {
        const Elf64_Phdr *ph = &elf->ph[i];
        size_t n;

        if (ph->p_type != PT_NOTE || !inside(elf->size, ph->p_offset, ph->p_filesz))
            continue;
        n = build_id_in(elf->data + ph->p_offset, ph->p_filesz, ret, cap);
        if (n)
            return n;
    }
    return 0;
}
