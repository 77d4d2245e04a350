#include "inject/libc.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/text/alloc.h"
#include "host/elf/elf.h"
#include "host/elf/elf_image.h"
#include "host/process/proc.h"

#define RTLD_NOW_MODE 2u
/* Private to glibc before 2.34: who calls is dlopen itself. */
#define RTLD_DLOPEN_MODE 0x80000000u
#define LOADED_MAX 64
#define PHDR_MAX 64
#define DYNAMIC_MAX 256

/* One mapped file, open. */
struct module {
    struct pb_elf elf;
    const struct pb_map *map; /* its code */
    uint64_t bias;
    bool is_open;
};

/* The allocator's exports lie together; what has no name lies between them. */
static const char *const allocator[] = {
    "malloc",         "free",           "calloc",        "realloc",            "memalign",
    "aligned_alloc",  "posix_memalign", "valloc",        "pvalloc",            "cfree",
    "malloc_trim",    "malloc_stats",   "malloc_info",   "malloc_usable_size", "mallopt",
    "mallinfo",       "mallinfo2",      "__libc_malloc", "__libc_calloc",      "__libc_free",
    "__libc_realloc", "__libc_memalign", "reallocarray", "__libc_valloc",      "__libc_pvalloc",
    NULL,
};

/*
 * Holders of the loader's lock, of the list of threads and their stacks, and
 * of the list of open streams, which the first pthread_create walks.
 */
static const char *const holders[] = {
    "dlopen",         "dlclose",          "dlsym",         "dlvsym",           "dladdr",
    "dladdr1",        "dlinfo",           "dlmopen",       "dlerror",          "dl_iterate_phdr",
    "_dl_find_object", "_dl_addr",        "__libc_dlopen_mode", "__libc_dlsym", "__libc_dlclose",
    "__cxa_thread_atexit_impl",           "pthread_create", "pthread_detach",  "pthread_exit",
    "pthread_cancel", "pthread_getattr_np", "pthread_setattr_default_np",
    "pthread_getattr_default_np",         "thrd_create",   "fork",             "_Fork",
    "__fork",         "vfork",            "__libc_fork",   "daemon",           "forkpty",
    "setuid",         "setgid",           "seteuid",       "setegid",          "setreuid",
    "setregid",       "setresuid",        "setresgid",     "setgroups",        "initgroups",
    "fopen",          "fopen64",          "fdopen",        "freopen",          "freopen64",
    "fclose",         "popen",            "pclose",        "_IO_link_in",      "_IO_un_link",
    "_IO_flush_all",  "__libc_freeres",   NULL,
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static bool bias_of(struct module *m)
{
    for (size_t i = 0; i < m->elf.nph; i++) {
        const Elf64_Phdr *ph = &m->elf.ph[i];
        uint64_t first = ph->p_offset - ph->p_offset % 4096;

        if (ph->p_type == PT_LOAD && (ph->p_flags & PF_X) && m->map->offset >= first &&
            m->map->offset < ph->p_offset + ph->p_filesz) {
            m->bias = m->map->start - (ph->p_vaddr - ph->p_offset) - m->map->offset;
            return true;
        }
    }
    return false;
}

/* The start of a file's image: where its first page is mapped. */
static uint64_t image_start(const struct pb_maps *maps, const struct pb_map *code)
{
    for (size_t i = 0; i < maps->n; i++)
        if (maps->v[i].inode == code->inode && maps->v[i].offset == 0 &&
            strcmp(maps->v[i].path, code->path) == 0)
            return maps->v[i].start;
    return 0;
}

/* Opens the file behind code; one that was replaced on disk is read from memory. */
static bool open_module(struct module *m, pid_t pid, const struct pb_maps *maps,
                        struct pb_mem *mem, const struct pb_map *code)
{
    struct pb_err ignored = {0};
    uint64_t start;
    int fd;

    memset(m, 0, sizeof *m);
    m->map = code;
    fd = pb_maps_open_file(pid, code, &ignored);
    if (fd >= 0) {
        m->is_open = pb_elf_open_fd(&m->elf, fd, &ignored) == 0;
        close(fd);
    }
    start = m->is_open ? 0 : image_start(maps, code);
    if (start)
        m->is_open = pb_elf_from_process(&m->elf, mem, start, &ignored) == 0;
    if (m->is_open && !bias_of(m)) {
        pb_elf_close(&m->elf);
        m->is_open = false;
    }
    return m->is_open;
}

static void close_module(struct module *m)
{
    if (m->is_open)
        pb_elf_close(&m->elf);
    m->is_open = false;
}

static uint64_t address_of(const struct module *m, const char *name, uint64_t *ret_size)
{
    struct pb_elf_sym sym;

    if (!m->is_open || !pb_elf_find_symbol(&m->elf, name, &sym) || sym.type != STT_FUNC)
        return 0;
    if (ret_size)
        *ret_size = sym.size;
    return sym.vaddr + m->bias;
}

/*
 * The allocator as one range: from the end of the function in front of its
 * first export to the end of its last. Its inner functions have no names in a
 * stripped library, but they are not anywhere else.
 */
static void add_allocator(struct pb_libc *c, const struct module *m)
{
    uint64_t lo = UINT64_MAX, hi = 0, before = 0, size;
    struct pb_elf_symbols t;
    struct pb_elf_sym sym;

    for (const char *const *name = allocator; *name; name++) {
        uint64_t at = address_of(m, *name, &size);

        if (at && at < lo)
            lo = at;
        if (at && at + size > hi)
            hi = at + size;
    }
    if (!hi || !pb_elf_symbols(&m->elf, PB_ELF_DYNSYM, &t))
        return;
    for (size_t i = 0; i < t.n; i++) {
        uint64_t end;

        if (!pb_elf_symbol(&t, i, &sym) || sym.type != STT_FUNC)
            continue;
        end = sym.vaddr + sym.size + m->bias;
        if (end <= lo && end > before)
            before = end;
    }
    pb_danger_add(&c->danger, before > m->map->start ? before : m->map->start, hi);
}

static void add_holders(struct pb_libc *c, const struct module *m)
{
    for (const char *const *name = holders; *name; name++) {
        uint64_t size = 0, at = address_of(m, *name, &size);

        if (at)
            pb_danger_add(&c->danger, at, at + size);
    }
}

static const struct pb_map *code_named(const struct pb_maps *maps, const char *const *prefixes)
{
    for (size_t i = 0; i < maps->n; i++) {
        const char *name = base_name(maps->v[i].path);

        if (!maps->v[i].exec || maps->v[i].path[0] != '/')
            continue;
        for (const char *const *p = prefixes; *p; p++)
            if (strncmp(name, *p, strlen(*p)) == 0)
                return &maps->v[i];
    }
    return NULL;
}

/* Value of an entry of the auxiliary vector, or 0. */
static uint64_t auxiliary(const char *auxv, size_t len, uint64_t type)
{
    for (size_t i = 0; auxv && i + 16 <= len; i += 16) {
        uint64_t pair[2];

        memcpy(pair, auxv + i, sizeof pair);
        if (pair[0] == type)
            return pair[1];
    }
    return 0;
}

/* Address of the loader's list of loaded files, through the program's DT_DEBUG. */
static uint64_t loaded_list(struct pb_mem *mem, uint64_t phdr, uint64_t n)
{
    Elf64_Phdr ph[PHDR_MAX];
    uint64_t bias = 0, dynamic = 0, list = 0;
    Elf64_Dyn dyn;

    if (!phdr || n == 0 || n > PHDR_MAX || !pb_mem_get(mem, phdr, ph, n * sizeof *ph))
        return 0;
    for (size_t i = 0; i < n; i++) {
        if (ph[i].p_type == PT_PHDR)
            bias = phdr - ph[i].p_vaddr;
        if (ph[i].p_type == PT_DYNAMIC)
            dynamic = ph[i].p_vaddr;
    }
    for (int i = 0; dynamic && i < DYNAMIC_MAX; i++) {
        if (!pb_mem_get(mem, dynamic + bias + (uint64_t)i * sizeof dyn, &dyn, sizeof dyn) ||
            dyn.d_tag == DT_NULL)
            break;
        if (dyn.d_tag == DT_DEBUG) /* struct r_debug: version, then the list */
            pb_mem_u64(mem, dyn.d_un.d_ptr + 8, &list);
    }
    return list;
}

static const struct pb_map *code_of(const struct pb_maps *maps, uint64_t inside)
{
    const struct pb_map *data = pb_maps_find(maps, inside);

    for (size_t i = 0; data && i < maps->n; i++)
        if (maps->v[i].exec && maps->v[i].inode == data->inode && data->inode != 0 &&
            strcmp(maps->v[i].path, data->path) == 0)
            return &maps->v[i];
    return NULL;
}

/*
 * An allocator that replaces the C library's (preloaded, or linked into the
 * program) is called by pthread_create, too. Only what was loaded in front of
 * the C library can be one.
 */
static void add_other_allocators(struct pb_libc *c, pid_t pid, const struct pb_maps *maps,
                                 struct pb_mem *mem, uint64_t list, const struct pb_map *libc)
{
    for (int i = 0; list && i < LOADED_MAX; i++) {
        struct {
            uint64_t addr, name, dynamic, next;
        } map;
        const struct pb_map *code;
        struct module m;

        if (!pb_mem_get(mem, list, &map, sizeof map))
            return;
        list = map.next;
        code = code_of(maps, map.dynamic);
        if (code == libc)
            return;
        if (!code || !open_module(&m, pid, maps, mem, code))
            continue;
        /* A library that is an allocator is one all over. */
        if (address_of(&m, "malloc", NULL) && i > 0)
            pb_danger_add(&c->danger, code->start, code->end);
        else if (address_of(&m, "malloc", NULL))
            add_allocator(c, &m);
        close_module(&m);
    }
}

static int need(uint64_t *ret, const struct module *const *from, const char *name,
                struct pb_err *err)
{
    for (; *from && !*ret; from++)
        *ret = address_of(*from, name, NULL);
    return *ret ? 0 : pb_err_set(err, PB_FAIL, "its C library has no %s", name);
}

static int find_functions(struct pb_libc *c, const struct module *const *from, struct pb_err *err)
{
    struct pb_err ignored = {0};

    if (need(&c->pthread_create, from, "pthread_create", err) < 0 ||
        need(&c->attr_init, from, "pthread_attr_init", err) < 0 ||
        need(&c->attr_setstacksize, from, "pthread_attr_setstacksize", err) < 0 ||
        need(&c->attr_setdetachstate, from, "pthread_attr_setdetachstate", err) < 0 ||
        need(&c->errno_location, from, "__errno_location", err) < 0)
        return -1;
    c->dlmode = RTLD_NOW_MODE;
    if (need(&c->dlopen, from, "dlopen", &ignored) == 0 &&
        need(&c->dlsym, from, "dlsym", &ignored) == 0) {
        need(&c->dlerror, from, "dlerror", &ignored);
        return 0;
    }
    c->dlopen = c->dlsym = 0;
    c->dlmode |= RTLD_DLOPEN_MODE;
    if (need(&c->dlopen, from, "__libc_dlopen_mode", err) < 0)
        return -1;
    return need(&c->dlsym, from, "__libc_dlsym", err);
}

static int find_libc(const struct pb_maps *maps, const struct pb_map **ret, struct pb_err *err)
{
    static const char *const glibc[] = {"libc.so.6", "libc-2.", NULL};
    static const char *const musl[] = {"ld-musl-", "libc.musl-", NULL};

    *ret = code_named(maps, glibc);
    if (*ret)
        return 0;
    if (code_named(maps, musl))
        return pb_err_set(err, PB_FAIL,
                          "its C library is musl; injection needs glibc (backtrace works)");
    return pb_err_set(err, PB_FAIL, "a static program: it has no loader that could load the probe");
}

int pb_libc_find(struct pb_libc *c, pid_t pid, const struct pb_maps *maps, struct pb_mem *mem,
                 struct pb_err *err)
{
    static const char *const threads[] = {"libpthread", NULL}, *const loading[] = {"libdl", NULL};
    const struct pb_map *libc, *ld, *pthread = code_named(maps, threads),
                                    *dl = code_named(maps, loading);
    struct module m = {0}, mp = {0}, md = {0};
    const struct module *const from[] = {&m, &mp, &md, NULL};
    struct pb_arena a = PB_ARENA_INIT;
    size_t len = 0;
    char *auxv;
    int rc = -1;

    memset(c, 0, sizeof *c);
    if (find_libc(maps, &libc, err) < 0)
        return -1;
    auxv = pb_proc_read(pid, "auxv", &a, &len);
    ld = code_of(maps, auxiliary(auxv, len, AT_BASE));
    if (!ld) {
        pb_err_set(err, PB_FAIL, "its loader was not found");
        goto finish;
    }
    if (!open_module(&m, pid, maps, mem, libc)) {
        pb_err_set(err, PB_FAIL, "%s cannot be read", libc->path);
        goto finish;
    }
    if (pthread && open_module(&mp, pid, maps, mem, pthread))
        add_holders(c, &mp);
    if (dl && open_module(&md, pid, maps, mem, dl))
        pb_danger_add(&c->danger, dl->start, dl->end);
    if (find_functions(c, from, err) < 0)
        goto close;
    c->text = (struct pb_code_range){libc->start, libc->end};
    c->loader = (struct pb_code_range){ld->start, ld->end};
    pb_danger_add(&c->danger, ld->start, ld->end);
    add_allocator(c, &m);
    add_holders(c, &m);
    add_other_allocators(c, pid, maps, mem,
                         loaded_list(mem, auxiliary(auxv, len, AT_PHDR),
                                     auxiliary(auxv, len, AT_PHNUM)),
                         libc);
    pb_danger_sort(&c->danger);
    rc = 0;
close:
    close_module(&m);
    close_module(&mp);
    close_module(&md);
finish:
    pb_arena_finish(&a);
    if (rc < 0)
        pb_libc_finish(c);
    return rc;
}

void pb_libc_finish(struct pb_libc *c)
{
    pb_danger_finish(&c->danger);
}
