#include "stack/python/locate.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/elf/elf_image.h"
#include "host/python/detect.h"

#define PAGE_MASK (~(uint64_t)0xfff)
#define COOKIE "xdebugpy"
/* A data segment larger than this is not scanned; CPython's is below 2 MB. */
#define SCAN_MAX (64u << 20)
/* A target can map as many files as it likes, each large. */
#define SEARCH_NS UINT64_C(10000000000)

/* One file mapped into the target that may hold an interpreter. */
struct module {
    const struct pb_map *map; /* its first mapping */
    struct pb_elf elf;
    uint64_t bias;  /* address in memory minus address in the file */
};

struct search {
    pid_t pid;
    const struct pb_maps *maps;
    struct pb_mem *mem;
    struct pb_arena *a;
    struct pb_py_location *ret;
    struct pb_err *err;
    bool saw_python; /* some module looked like Python, so "not Python" would be wrong */
    bool saw_idle;   /* its list of interpreters was found, and is empty */
    uint64_t deadline_ns;
};

static bool same_file(const struct pb_map *x, const struct pb_map *y)
{
    return x->inode == y->inode && x->dev_major == y->dev_major && x->dev_minor == y->dev_minor;
}

static bool module_bias(const struct search *s, struct module *m)
{
    for (size_t i = 0; i < s->maps->n; i++) {
        const struct pb_map *map = &s->maps->v[i];

        if (!same_file(map, m->map))
            continue;
        for (size_t j = 0; j < m->elf.nph; j++) {
            const Elf64_Phdr *ph = &m->elf.ph[j];

            if (ph->p_type == PT_LOAD && (ph->p_offset & PAGE_MASK) == map->offset) {
                m->bias = map->start - (ph->p_vaddr & PAGE_MASK);
                return true;
            }
        }
    }
    return false;
}

static void module_finish(struct module *m)
{
    pb_elf_close(&m->elf);
    memset(m, 0, sizeof *m);
}

static int module_init(struct search *s, struct module *m, const struct pb_map *map)
{
    struct pb_err ignored = {0};
    int fd, rc = -1;

    memset(m, 0, sizeof *m);
    m->map = map;
    fd = pb_maps_open_file(s->pid, map, &ignored);
    if (fd >= 0) {
        rc = pb_elf_open_fd(&m->elf, fd, &ignored);
        close(fd);
    }
    /* A file that was deleted or replaced is still there as it is mapped. */
    if (rc < 0 && pb_elf_from_process(&m->elf, s->mem, map->start, &ignored) < 0)
        goto fail;
    if (!module_bias(s, m))
        goto fail;
    return 0;
fail:
    module_finish(m);
    return -1;
}

/* An interpreter is real when its first thread points back at it. */
static bool validate(struct search *s, const struct pb_py_layout *py, uint64_t head_addr)
{
    uint64_t interp, tstate, back;

    for (int tries = 0; tries < 3; tries++) {
        if (pb_mem_u64(s->mem, head_addr, &interp) && interp &&
            pb_mem_u64(s->mem, interp + (uint64_t)py->interp_threads_head, &tstate) && tstate &&
            pb_mem_u64(s->mem, tstate + (uint64_t)py->ts_interp, &back) && back == interp)
            return true;
    }
    return false;
}

int pb_py_location_open(const struct pb_py_location *loc, const struct pb_maps *maps,
                        struct pb_mem *mem, struct pb_elf *ret)
{
    const struct pb_map *map = pb_maps_find(maps, loc->base);
    int fd = map ? pb_maps_open_file(mem->pid, map, NULL) : -1, rc = -1;

    if (fd >= 0) {
        rc = pb_elf_open_fd(ret, fd, NULL);
        close(fd);
    }
    return rc < 0 ? pb_elf_from_process(ret, mem, loc->base, NULL) : rc;
}

/* "…/python3.11/lib-dynload/…" and the like among the mapped files. */
static int minor_from_maps(const struct pb_maps *maps)
{
    for (size_t i = 0; i < maps->n; i++) {
        const char *p = strstr(maps->v[i].path, "python3.");
        int minor;

        if (p && sscanf(p + 8, "%d", &minor) == 1 && minor > 3 && minor < 40)
            return minor;
    }
    return -1;
}

/* "3.9.18 (main, …" or "3.9.18+ (…": the micro version in front of " (", or -1. */
static int parse_sys_version(const char *p, int want_minor, int *ret_minor)
{
    char *end;
    long minor = strtol(p + 2, &end, 10), micro;

    if (end == p + 2 || *end != '.' || minor < 4 || minor > 40 ||
        (want_minor >= 0 && minor != want_minor))
        return -1;
    p = end + 1;
    micro = strtol(p, &end, 10);
    if (end == p || micro < 0 || micro > 99 || strncmp(end + strcspn(end, " "), " (", 2) != 0 ||
        strcspn(end, " ") > 8)
        return -1;
    *ret_minor = (int)minor;
    return (int)micro;
}

/*
 * sys.version is put together in a static buffer at start, so it stands in the
 * zero-filled part of the data segment.
 */
static void version_from_memory(struct search *s, const struct module *m, struct pb_py_version *v)
{
    for (size_t i = 0; i < m->elf.nph && v->micro < 0; i++) {
        const Elf64_Phdr *ph = &m->elf.ph[i];
        size_t len = ph->p_memsz - ph->p_filesz;
        char *buf, *p;

        if (ph->p_type != PT_LOAD || ph->p_memsz <= ph->p_filesz + 64 || len > SCAN_MAX ||
            !(buf = malloc(len + 1)))
            continue;
        buf[len] = '\0';
        p = pb_mem_get(s->mem, m->bias + ph->p_vaddr + ph->p_filesz, buf, len) ? buf : NULL;
        while (p && v->micro < 0 && (p = memmem(p, len - (size_t)(p - buf), "3.", 2)))
            v->micro = parse_sys_version(p++, v->minor, &v->minor);
        free(buf);
    }
}

static struct pb_py_version module_version(struct search *s, const struct module *m)
{
    struct pb_py_version v = pb_py_version_of(&m->elf, m->map->path);

    if (v.major != 3)
        return v;
    if (v.minor < 0)
        v.minor = minor_from_maps(s->maps);
    if (v.micro < 0)
        version_from_memory(s, m, &v);
    return v;
}

static void format_version(char *buf, size_t cap, struct pb_py_version v)
{
    if (v.micro >= 0)
        snprintf(buf, cap, "%d.%d.%d", v.major, v.minor, v.micro);
    else
        snprintf(buf, cap, "%d.%d", v.major, v.minor);
}

static int refuse_version(struct search *s, struct pb_py_version v)
{
    char text[24], known[32];

    if (v.minor < 0)
        return pb_err_set(s->err, PB_FAIL, "a Python whose version cannot be told");
    format_version(text, sizeof text, v);
    return pb_err_set(s->err, PB_FAIL, "Python %s is not supported, only %s", text,
                      pb_py_supported(known, sizeof known));
}

static bool is_debug_build(const struct module *m)
{
    struct pb_elf_sym sym;

    return pb_elf_find_export(&m->elf, "_Py_NegativeRefcount", &sym) ||
           pb_elf_find_export(&m->elf, "_Py_RefTotal", &sym);
}

static int refuse_debug(struct search *s, const struct module *m, struct pb_py_version v)
{
    if (!is_debug_build(m))
        return 0;
    return pb_err_set(s->err, PB_FAIL,
                      "a debug build of Python 3.%d, whose memory layout is not known; "
                      "run the job with the release build",
                      v.minor);
}

/* The layout for _PyRuntime at an address: by its own offsets, else by version. */
static int layout_for_runtime(struct search *s, const struct module *m, uint64_t runtime)
{
    uint8_t head[PB_DEBUG_OFFSETS_MAX];
    struct pb_py_version v;

    if (!pb_mem_get(s->mem, runtime, head, sizeof head))
        return -1;
    if (memcmp(head, COOKIE, 8) == 0) {
        uint64_t hex;

        memcpy(&hex, head + 8, sizeof hex);
        v = (struct pb_py_version){3, (int)(hex >> 16 & 0xff), (int)(hex >> 8 & 0xff)};
        format_version(s->ret->version, sizeof s->ret->version, v);
        return pb_py_layout_from_offsets(&s->ret->layout, head, sizeof head, s->err);
    }
    v = module_version(s, m);
    if (!pb_py_layout_find(&s->ret->layout, v.major, v.minor, v.micro))
        return v.minor < 0 ? -1 : refuse_version(s, v);
    if (refuse_debug(s, m, v) < 0)
        return -1;
    format_version(s->ret->version, sizeof s->ret->version, v);
    return 0;
}

static void set_module(struct search *s, const struct module *m)
{
    s->ret->module = pb_arena_strdup(s->a, m->map->path);
    s->ret->base = m->map->start;
    s->ret->bias = m->bias;
}

static int accept_runtime(struct search *s, const struct module *m, uint64_t runtime,
                          const char *how)
{
    struct pb_py_location *ret = s->ret;
    uint64_t head;

    s->saw_python = true;
    if (layout_for_runtime(s, m, runtime) < 0)
        return -1;
    ret->interp_head = runtime + (uint64_t)ret->layout.runtime_interp_head;
    if (!validate(s, &ret->layout, ret->interp_head)) {
        s->saw_idle = s->saw_idle || (pb_mem_u64(s->mem, ret->interp_head, &head) && !head);
        return -1;
    }
    ret->runtime = runtime;
    ret->how = how;
    set_module(s, m);
    return 0;
}

/* Copies the writable part of a module, zero-filled data included. NULL: none. */
static uint8_t *copy_data(struct search *s, const struct module *m, uint64_t *ret_addr,
                          size_t *ret_len)
{
    for (size_t i = 0; i < m->elf.nph; i++) {
        const Elf64_Phdr *ph = &m->elf.ph[i];
        uint64_t start = (m->bias + ph->p_vaddr + 7) & ~(uint64_t)7;
        uint8_t *buf;

        if (ph->p_type != PT_LOAD || !(ph->p_flags & PF_W) || ph->p_memsz < 64 ||
            ph->p_memsz > SCAN_MAX || !(buf = malloc(ph->p_memsz)))
            continue;
        if (pb_mem_get(s->mem, start, buf, ph->p_memsz - 8)) {
            *ret_addr = start;
            *ret_len = ph->p_memsz - 8;
            return buf;
        }
        free(buf);
    }
    return NULL;
}

static int scan_cookie(struct search *s, const struct module *m)
{
    uint64_t addr = 0;
    size_t len = 0;
    uint8_t *data = copy_data(s, m, &addr, &len), *p;
    int rc = -1;

    if (!data)
        return -1;
    for (p = data; (p = memmem(p, len - (size_t)(p - data), COOKIE, 8)); p++) {
        rc = accept_runtime(s, m, addr + (uint64_t)(p - data), "cookie of _Py_DebugOffsets");
        if (rc == 0)
            break;
    }
    free(data);
    return rc;
}

/* Last rung: any word of the data segment that leads to a valid interpreter. */
static int scan_interp(struct search *s, const struct module *m, const struct pb_py_layout *py)
{
    uint64_t addr = 0, found = 0;
    size_t len = 0;
    uint8_t *data = copy_data(s, m, &addr, &len);

    for (size_t off = 0; data && !found && off + 8 <= len; off += 8) {
        const struct pb_map *map;
        uint64_t p;

        memcpy(&p, data + off, sizeof p);
        if (p < 4096 || (p & 7))
            continue;
        map = pb_maps_find(s->maps, p);
        if (map && map->write && validate(s, py, addr + off))
            found = addr + off;
    }
    free(data);
    if (!found)
        return -1;
    s->ret->interp_head = found;
    return 0;
}

static int scan_known(struct search *s, const struct module *m)
{
    struct pb_py_version v = module_version(s, m);
    const struct pb_py_layout *py = &s->ret->layout;

    if (!pb_py_layout_find(&s->ret->layout, v.major, v.minor, v.micro) ||
        scan_interp(s, m, py) < 0)
        return -1;
    if (py->runtime_interp_head != PB_NONE)
        s->ret->runtime = s->ret->interp_head - (uint64_t)py->runtime_interp_head;
    format_version(s->ret->version, sizeof s->ret->version, v);
    s->ret->how = "scan of the data segment";
    set_module(s, m);
    return 0;
}

static bool named_like_python(const struct pb_map *map)
{
    const char *base = strrchr(map->path, '/');

    base = base ? base + 1 : map->path;
    return strncmp(base, "libpython", 9) == 0 || strncmp(base, "python", 6) == 0;
}

/*
 * Without _PyRuntime the GIL is somewhere in the zero-filled data, and nothing else there is slept
 * on: all other locks of the interpreter are allocated. Of a program that only contains Python this
 * does not hold.
 */
static void set_gil(struct search *s, const struct module *m)
{
    for (size_t i = 0; i < m->elf.nph && named_like_python(m->map); i++) {
        const Elf64_Phdr *ph = &m->elf.ph[i];

        if (ph->p_type == PT_LOAD && (ph->p_flags & PF_W) && ph->p_memsz > ph->p_filesz) {
            s->ret->gil = m->bias + ph->p_vaddr + ph->p_filesz;
            s->ret->gil_size = ph->p_memsz - ph->p_filesz;
        }
    }
}

/* Versions without _PyRuntime have a head pointer and a current thread, as globals. */
static int try_globals(struct search *s, const struct module *m, const struct pb_elf_sym *current)
{
    struct pb_py_version v = module_version(s, m);
    struct pb_py_location *ret = s->ret;
    const struct pb_py_layout *py = &ret->layout;
    struct pb_elf_sym head;

    s->saw_python = true;
    if (!pb_py_layout_find(&ret->layout, v.major, v.minor, v.micro))
        return refuse_version(s, v);
    if (refuse_debug(s, m, v) < 0)
        return -1;
    ret->current = m->bias + current->vaddr;
    if (pb_elf_find_symbol(&m->elf, "_Py_Finalizing", &head))
        ret->finalizing = m->bias + head.vaddr;
    format_version(ret->version, sizeof ret->version, v);
    set_module(s, m);
    set_gil(s, m);
    if (pb_elf_find_symbol(&m->elf, "interp_head", &head) &&
        validate(s, py, m->bias + head.vaddr)) {
        ret->interp_head = m->bias + head.vaddr;
        ret->how = "symbol interp_head";
        return 0;
    }
    if (validate(s, py, ret->current + 8)) {
        ret->interp_head = ret->current + 8;
        ret->how = "the word behind _PyThreadState_Current";
        return 0;
    }
    ret->how = "scan of the data segment";
    return scan_interp(s, m, py);
}

static int try_symbols(struct search *s, const struct module *m)
{
    struct pb_elf_range section;
    struct pb_elf_sym sym;

    if (pb_elf_find_symbol(&m->elf, "_PyRuntime", &sym) &&
        accept_runtime(s, m, m->bias + sym.vaddr, "symbol _PyRuntime") == 0)
        return 0;
    if (pb_elf_section(&m->elf, ".PyRuntime", &section) &&
        accept_runtime(s, m, m->bias + section.vaddr, "section .PyRuntime") == 0)
        return 0;
    if (pb_elf_find_symbol(&m->elf, "_PyThreadState_Current", &sym) &&
        try_globals(s, m, &sym) == 0)
        return 0;
    return -1;
}

static int try_scans(struct search *s, const struct module *m)
{
    return scan_cookie(s, m) == 0 ? 0 : scan_known(s, m);
}

/*
 * Is this the first mapping of its file? Only then is the module looked at.
 * The mappings of a file lie close together, so a short look back is enough.
 */
static bool first_of_file(const struct pb_maps *maps, size_t i)
{
    if (maps->v[i].path[0] != '/')
        return false;
    for (size_t j = i; j-- > 0 && i - j <= 8;)
        if (same_file(&maps->v[j], &maps->v[i]))
            return false;
    return true;
}

/* One pass over the modules: those named like Python, or the others. */
static int pass(struct search *s, bool named,
                int (*attempt)(struct search *, const struct module *))
{
    for (size_t i = 0; i < s->maps->n; i++) {
        struct module m;
        int rc;

        if (pb_clock_ns() > s->deadline_ns)
            return pb_err_set(s->err, PB_FAIL, "the files it has mapped take too long to look at");
        if (!first_of_file(s->maps, i) || named_like_python(&s->maps->v[i]) != named ||
            module_init(s, &m, &s->maps->v[i]) < 0)
            continue;
        rc = attempt(s, &m);
        module_finish(&m);
        if (rc == 0)
            return 0;
    }
    return -1;
}

/* A program that is no Python itself may have loaded one long ago, for later or for nothing. */
static int fail_idle(const struct search *s, struct pb_err *err)
{
    char link[32], path[PATH_MAX];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/%d/exe", (int)s->pid);
    n = readlink(link, path, sizeof path - 1);
    path[n < 0 ? 0 : n] = '\0';
    if (n <= 0 || pb_py_is_program_name(path))
        return pb_err_set(err, PB_FAIL,
                          "the Python interpreter is starting or ending; try again in a moment");
    return pb_err_set(err, PB_FAIL,
                      "Python is loaded, but no interpreter runs: not started yet, or ended");
}

static bool search_all(struct search *s)
{
    if (pass(s, true, try_symbols) == 0 || pass(s, false, try_symbols) == 0)
        return true;
    return s->err->code == PB_OK && !s->saw_idle &&
           (pass(s, true, try_scans) == 0 ||
            (minor_from_maps(s->maps) >= 0 && pass(s, false, try_scans) == 0));
}

int pb_py_locate(struct pb_py_location *ret, pid_t pid, const struct pb_maps *maps,
                 struct pb_mem *mem, struct pb_arena *a, struct pb_err *err)
{
    struct pb_err first = {0};
    struct search s = {pid, maps, mem, a, ret, &first, false, false, pb_clock_ns() + SEARCH_NS};

    memset(ret, 0, sizeof *ret);
    if (search_all(&s)) {
        if (ret->runtime && ret->layout.runtime_finalizing != PB_NONE)
            ret->finalizing = ret->runtime + (uint64_t)ret->layout.runtime_finalizing;
        return 0;
    }
    if (first.code != PB_OK)
        return pb_err_set(err, first.code, "%s", first.msg);
    if (s.saw_python)
        return fail_idle(&s, err);
    return pb_err_set(err, PB_FAIL, "not a Python process");
}
