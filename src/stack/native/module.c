/* module.c - the files that a target has mapped as code. */
#include "stack/native/module.h"

#include <stdlib.h>
#include <unistd.h>

#include "host/elf/elf_image.h"
#include "stack/native/arch.h"

#define PAGE_MASK ((uint64_t)4095)
#define CALL_MAX 16 /* at least pb_arch.call_max */
#define STUB_MAX 16
#define UNSIZED_MAX 65536 /* how far behind a symbol without size code may still be its own */

int pb_modules_init(struct pb_modules *ms, pid_t pid, const struct pb_maps *maps,
                    struct pb_mem *mem, struct pb_err *err)
{
    memset(ms, 0, sizeof *ms);
    ms->pid = pid;
    ms->maps = maps;
    ms->mem = mem;
    ms->by_map = calloc(maps->n + 1, sizeof(struct pb_module *));
    return ms->by_map ? 0 : pb_err_set(err, PB_FAIL, "out of memory");
}

void pb_modules_finish(struct pb_modules *ms)
{
    struct pb_module *next;

    for (struct pb_module *m = ms->list; m; m = next) {
        next = m->next;
        pb_eh_finish(&m->eh);
        pb_elf_close(&m->elf);
        free(m);
    }
    free(ms->by_map);
    memset(ms, 0, sizeof *ms);
}

static bool same_file(const struct pb_map *a, const struct pb_map *b)
{
    return a->inode == b->inode && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor &&
           strcmp(a->path, b->path) == 0;
}

/* What the loader added to the addresses of the segment that a mapping shows. */
static bool find_bias(const struct pb_elf *elf, const struct pb_map *map, uint64_t *ret)
{
    for (size_t i = 0; i < elf->nph; i++) {
        const Elf64_Phdr *ph = &elf->ph[i];
        uint64_t from = ph->p_offset & ~PAGE_MASK;

        if (ph->p_type != PT_LOAD || ((ph->p_flags & PF_X) != 0) != map->exec)
            continue;
        if (map->offset < from || map->offset - from > ph->p_filesz)
            continue;
        *ret = map->start - map->offset + ph->p_offset - ph->p_vaddr;
        return true;
    }
    return false;
}

/* The start of the run of mappings that shows the same file, where its header lies. */
static const struct pb_map *first_map(const struct pb_modules *ms, const struct pb_map *map)
{
    const struct pb_map *m = map;

    while (m > ms->maps->v && m->offset != 0) {
        m--;
        if (same_file(m, map) && m->offset == 0)
            return m;
    }
    return m->offset == 0 && same_file(m, map) ? m : NULL;
}

static bool open_image(const struct pb_modules *ms, struct pb_module *m)
{
    const struct pb_map *first = first_map(ms, m->map);

    return first && ms->mem && pb_elf_from_process(&m->elf, ms->mem, first->start, NULL) == 0;
}

static bool open_elf(const struct pb_modules *ms, struct pb_module *m)
{
    int fd;

    if (m->map->path[0] != '/')
        return strcmp(m->map->path, "[vdso]") == 0 && open_image(ms, m);
    fd = pb_maps_open_file(ms->pid, m->map, NULL);
    if (fd >= 0) {
        int rc = pb_elf_open_fd(&m->elf, fd, NULL);

        close(fd);
        return rc == 0;
    }
    /* Deleted or replaced: what was mapped of it is still in the target. */
    return open_image(ms, m);
}

static struct pb_module *add_module(struct pb_modules *ms, const struct pb_map *map)
{
    struct pb_module *m = calloc(1, sizeof *m);

    if (!m)
        return NULL;
    m->map = map;
    m->next = ms->list;
    ms->list = m;
    if (!open_elf(ms, m))
        return m;
    if (m->elf.eh->e_machine == pb_arch.machine && find_bias(&m->elf, map, &m->bias)) {
        m->is_open = true;
        m->has_eh = pb_eh_init(&m->eh, &m->elf);
    }
    return m;
}

/* The same file may be loaded twice (dlmopen); its addresses differ then. */
static struct pb_module *known_module(const struct pb_modules *ms, const struct pb_map *map)
{
    uint64_t bias;

    for (struct pb_module *m = ms->list; m; m = m->next) {
        if (same_file(m->map, map) && m->is_open && find_bias(&m->elf, map, &bias) &&
            bias == m->bias)
            return m;
    }
    return NULL;
}

struct pb_module *pb_modules_find(struct pb_modules *ms, uint64_t pc)
{
    const struct pb_map *map = pb_maps_find(ms->maps, pc);
    struct pb_module **slot;

    if (!map || !map->exec || (map->path[0] != '/' && map->path[0] != '['))
        return NULL;
    slot = &ms->by_map[map - ms->maps->v];
    if (!*slot)
        *slot = known_module(ms, map);
    if (!*slot)
        *slot = add_module(ms, map);
    return *slot;
}

bool pb_modules_is_code(const struct pb_modules *ms, uint64_t pc)
{
    const struct pb_map *map = pb_maps_find(ms->maps, pc);

    return map && map->exec;
}

bool pb_modules_read_code(struct pb_modules *ms, uint64_t addr, void *buf, size_t len)
{
    struct pb_module *m = pb_modules_find(ms, addr);
    struct pb_elf_range range;

    if (m && m->is_open && pb_elf_at(&m->elf, addr - m->bias, &range) && range.size >= len) {
        memcpy(buf, range.data, len);
        return true;
    }
    return ms->mem && pb_mem_get(ms->mem, addr, buf, len);
}

bool pb_modules_is_after_call(struct pb_modules *ms, uint64_t pc)
{
    uint8_t before[CALL_MAX];
    size_t n = pb_arch.call_max;

    return pc > n && pb_modules_is_code(ms, pc) && pb_modules_read_code(ms, pc - n, before, n) &&
           pb_arch_is_call(before, n);
}

/* 0 also for what is no code: the bytes were another instruction's. */
static uint64_t follow(struct pb_modules *ms, struct pb_branch b)
{
    if (b.slot && (!ms->mem || !pb_mem_u64(ms->mem, b.slot, &b.to)))
        return 0;
    return pb_modules_is_code(ms, b.to) ? b.to : 0;
}

uint64_t pb_modules_callee(struct pb_modules *ms, uint64_t pc)
{
    uint8_t before[CALL_MAX], stub[STUB_MAX];
    size_t n = pb_arch.call_max;
    uint64_t to, on;

    if (pc <= n || !pb_modules_read_code(ms, pc - n, before, n))
        return 0;
    to = follow(ms, pb_arch_call(before, n, pc));
    if (!to || !pb_modules_read_code(ms, to, stub, sizeof stub))
        return to;
    on = follow(ms, pb_arch_stub(stub, sizeof stub, to));
    return on ? on : to;
}

struct function_search {
    uint64_t vaddr;
    uint64_t start, end; /* bounds of the innermost symbol around vaddr */
    uint64_t before;     /* the last function symbol at or in front of vaddr */
    uint64_t before_size;
};

static bool visit_function(const struct pb_elf_sym *sym, void *arg)
{
    struct function_search *f = arg;

    if ((sym->type != STT_FUNC && sym->type != STT_GNU_IFUNC) || sym->vaddr > f->vaddr)
        return false;
    if (sym->vaddr >= f->before) {
        f->before = sym->vaddr;
        f->before_size = sym->size;
    }
    if (f->vaddr - sym->vaddr < sym->size && sym->vaddr >= f->start) {
        f->start = sym->vaddr;
        f->end = sym->vaddr + sym->size;
    }
    return false;
}

bool pb_module_function(struct pb_module *m, uint64_t vaddr, uint64_t *ret_start)
{
    struct function_search f = {.vaddr = vaddr};

    if (vaddr < m->func_start || vaddr >= m->func_end) {
        pb_elf_each_symbol(&m->elf, PB_ELF_DYNSYM, visit_function, &f);
        if (!f.end)
            pb_elf_each_symbol(&m->elf, PB_ELF_SYMTAB, visit_function, &f);
        if (!f.end && f.before && f.before_size == 0 && vaddr - f.before < UNSIZED_MAX) {
            f.start = f.before;
            f.end = vaddr + 1;
        }
        if (!f.end)
            return false;
        m->func_start = f.start;
        m->func_end = f.end;
    }
    *ret_start = m->func_start;
    return true;
}
