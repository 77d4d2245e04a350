#include "host/process/core.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "host/process/core_notes.h"
#include "host/os/regular.h"

#define PAGE 4096

static bool read_at(int fd, uint64_t offset, void *buf, size_t len)
{
    char *p = buf;

    while (len) {
        ssize_t got = offset > INT64_MAX ? -1 : pread(fd, p, len, (off_t)offset);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        p += got;
        offset += (uint64_t)got;
        len -= (size_t)got;
    }
    return true;
}

static size_t region_at(const struct pb_core *c, uint64_t addr)
{
    const struct pb_map *m = pb_maps_find(&c->maps, addr);

    return m ? (size_t)(m - c->maps.v) : SIZE_MAX;
}

static void set_file(struct pb_core_file *f, int fd, const struct stat *st)
{
    f->fd = fd;
    f->inode = st->st_ino;
    f->dev_major = major(st->st_dev);
    f->dev_minor = minor(st->st_dev);
}

static int open_file(const struct pb_core *c, struct pb_core_file *f)
{
    struct stat st;
    int fd;

    if (f->unusable || f->fd >= 0)
        return f->fd;
    /* A name in a core file may lead anywhere: what its owner cannot read was not mapped. */
    fd = pb_open_regular(f->path, c->owner == geteuid() ? NULL : pb_regular_is_readable_by,
                         &c->owner, &st);
    if (fd < 0)
        f->unusable = true;
    else
        set_file(f, fd, &st);
    return fd;
}

/* The start of [addr, addr + len) that lies in one place; 0: it is nowhere. */
static size_t read_part(struct pb_core *c, uint64_t addr, void *buf, size_t len)
{
    size_t i = region_at(c, addr);
    const struct pb_core_region *r;
    uint64_t at, left;

    if (i == SIZE_MAX)
        return 0;
    r = &c->regions[i];
    at = addr - c->maps.v[i].start;
    left = c->maps.v[i].end - addr;
    if (at < r->size) {
        left = r->size - at;
        len = left < len ? (size_t)left : len;
        return read_at(c->fd, r->offset + at, buf, len) ? len : 0;
    }
    len = left < len ? (size_t)left : len;
    if (r->file == SIZE_MAX || open_file(c, &c->files[r->file]) < 0)
        return 0;
    return read_at(c->files[r->file].fd, c->maps.v[i].offset + at, buf, len) ? len : 0;
}

static size_t read_core(struct pb_mem *mem, const struct pb_mem_range *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t done = 0, got;

        for (; done < v[i].len; done += got) {
            got = read_part(mem->arg, v[i].addr + done, (char *)v[i].buf + done, v[i].len - done);
            if (!got)
                return i;
        }
    }
    return n;
}

static bool begins_with(int fd, const char *page)
{
    char now[PAGE];

    return read_at(fd, 0, now, PAGE) && memcmp(page, now, PAGE) == 0;
}

/* A file of that first page, which has its build id, in the place that the user named. */
static bool find_stand_in(struct pb_core *c, struct pb_core_file *f, const char *page)
{
    const char *base = strrchr(f->path, '/');
    const char *paths[] = {c->files_in, pb_arena_printf(&c->arena, "%s%s", c->files_in, f->path),
                           pb_arena_printf(&c->arena, "%s%s", c->files_in, base ? base : "")};

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct stat st;
        int fd = pb_open_regular(paths[i], NULL, NULL, &st);

        if (fd >= 0 && begins_with(fd, page)) {
            set_file(f, fd, &st);
            f->path = paths[i];
            f->unusable = false;
            return true;
        }
        if (fd >= 0)
            close(fd);
    }
    return false;
}

/* Is the file still the one that was mapped? Its first page tells, if the core has it. */
static void check_file(struct pb_core *c, size_t region)
{
    const struct pb_core_region *r = &c->regions[region];
    struct pb_core_file *f = &c->files[r->file];
    char then[PAGE];
    bool is_other;

    if (c->maps.v[region].offset || r->size < PAGE || !read_at(c->fd, r->offset, then, PAGE) ||
        memcmp(then, "\177ELF", 4) != 0)
        return;
    if (open_file(c, f) >= 0 && begins_with(f->fd, then))
        return;
    is_other = f->fd >= 0;
    if (is_other)
        close(f->fd);
    f->fd = -1;
    f->unusable = true;
    if (c->files_in && find_stand_in(c, f, then))
        return;
    if (is_other)
        c->replaced = f->path;
    else
        c->missing = f->path;
}

static void check_files(struct pb_core *c)
{
    for (size_t i = 0; i < c->maps.n; i++)
        if (c->regions[i].file != SIZE_MAX)
            check_file(c, i);
    for (size_t i = 0; i < c->maps.n; i++) {
        const struct pb_core_file *f;

        if (c->regions[i].file == SIZE_MAX)
            continue;
        f = &c->files[c->regions[i].file];
        if (f->unusable)
            continue;
        c->maps.v[i].path = f->path;
        c->maps.v[i].inode = f->inode;
        c->maps.v[i].dev_major = f->dev_major;
        c->maps.v[i].dev_minor = f->dev_minor;
    }
}

/* One mapping, from a header of the core or from its list of files. */
struct piece {
    struct pb_map map;
    struct pb_core_region region;
};

static int compare_pieces(const void *x, const void *y)
{
    const struct piece *a = x, *b = y;

    if (a->map.start != b->map.start)
        return a->map.start < b->map.start ? -1 : 1;
    /* A header of the core knows more than the list of files. */
    return (b->region.size > 0) - (a->region.size > 0);
}

static int keep_pieces(struct pb_core *c, struct piece *v, size_t n, struct pb_err *err)
{
    c->regions = PB_NEW_N(&c->arena, struct pb_core_region, n + 1);
    c->maps.v = calloc(n + 1, sizeof *c->maps.v);
    if (!c->maps.v)
        return pb_err_set(err, PB_FAIL, "out of memory");
    qsort(v, n, sizeof *v, compare_pieces);
    for (size_t i = 0; i < n; i++) {
        uint64_t end = c->maps.n ? c->maps.v[c->maps.n - 1].end : 0;

        if (v[i].map.start < end || v[i].map.end <= v[i].map.start)
            continue;
        c->regions[c->maps.n] = v[i].region;
        c->maps.v[c->maps.n++] = v[i].map;
        c->bytes += v[i].region.size;
    }
    return 0;
}

static struct piece piece_of_file(const struct pb_core_notes *notes, size_t i)
{
    const struct pb_core_mapped *m = &notes->mapped[i];

    return (struct piece){{.start = m->start, .end = m->end, .offset = m->offset, .read = true,
                           .path = notes->paths[m->file]},
                          {.file = m->file}};
}

static int make_regions(struct pb_core *c, const Elf64_Phdr *ph, size_t nph,
                        const struct pb_core_notes *notes, struct pb_err *err)
{
    struct piece *v = PB_NEW_N(&c->arena, struct piece, nph + notes->nmapped + 1);
    size_t n = 0;

    for (size_t i = 0; i < nph; i++) {
        const struct pb_core_mapped *m = pb_core_notes_find(notes, ph[i].p_vaddr);
        struct piece *p = &v[n];

        if (ph[i].p_type != PT_LOAD || !ph[i].p_memsz ||
            ph[i].p_vaddr + ph[i].p_memsz < ph[i].p_vaddr || ph[i].p_filesz > ph[i].p_memsz)
            continue;
        *p = (struct piece){{.start = ph[i].p_vaddr, .end = ph[i].p_vaddr + ph[i].p_memsz,
                             .read = ph[i].p_flags & PF_R, .write = ph[i].p_flags & PF_W,
                             .exec = ph[i].p_flags & PF_X, .path = ""},
                            {.offset = ph[i].p_offset, .size = ph[i].p_filesz, .file = SIZE_MAX}};
        if (m) {
            p->map.path = notes->paths[m->file];
            p->map.offset = m->offset + (ph[i].p_vaddr - m->start);
            p->region.file = m->file;
        }
        n++;
    }
    for (size_t i = 0; i < notes->nmapped; i++)
        v[n++] = piece_of_file(notes, i);
    c->files = PB_NEW_N(&c->arena, struct pb_core_file, notes->npaths + 1);
    c->nfiles = notes->npaths;
    for (size_t i = 0; i < c->nfiles; i++)
        c->files[i] = (struct pb_core_file){.path = notes->paths[i], .fd = -1};
    return keep_pieces(c, v, n, err);
}

/* What this tool was built for: layouts and structs of others are not known. */
static int own_machine(void)
{
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    Elf64_Ehdr eh = {.e_machine = EM_NONE};

    if (fd < 0)
        return EM_NONE;
    if (!read_at(fd, 0, &eh, sizeof eh))
        eh.e_machine = EM_NONE;
    close(fd);
    return eh.e_machine;
}

static int read_headers(struct pb_core *c, Elf64_Phdr **ret, size_t *ret_n, struct pb_err *err)
{
    Elf64_Ehdr eh;

    if (!read_at(c->fd, 0, &eh, sizeof eh) || memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 ||
        eh.e_ident[EI_CLASS] != ELFCLASS64 || eh.e_type != ET_CORE)
        return pb_err_set(err, PB_FAIL, "not a core file of a 64-bit process");
    if (eh.e_machine != own_machine())
        return pb_err_set(err, PB_FAIL, "a core file of another processor (%d)", eh.e_machine);
    if (eh.e_phnum == PN_XNUM || eh.e_phentsize != sizeof **ret)
        return pb_err_set(err, PB_FAIL, "its table of mappings is not one that is understood");
    *ret = PB_NEW_N(&c->arena, Elf64_Phdr, (size_t)eh.e_phnum + 1);
    *ret_n = eh.e_phnum;
    if (!read_at(c->fd, eh.e_phoff, *ret, *ret_n * sizeof **ret))
        return pb_err_set(err, PB_FAIL, "cut off: its table of mappings is not there");
    return 0;
}

static void read_notes(struct pb_core *c, const Elf64_Phdr *ph, size_t nph,
                       struct pb_core_notes *notes)
{
    for (size_t i = 0; i < nph; i++) {
        void *bytes;

        if (ph[i].p_type != PT_NOTE || ph[i].p_filesz > PB_CORE_NOTES_MAX)
            continue;
        bytes = pb_arena_alloc(&c->arena, ph[i].p_filesz + 1);
        if (read_at(c->fd, ph[i].p_offset, bytes, ph[i].p_filesz))
            pb_core_notes_parse(notes, bytes, ph[i].p_filesz, &c->arena);
    }
}

static void set_threads(struct pb_core *c, const struct pb_core_notes *notes)
{
    c->threads = notes->threads;
    c->ntids = notes->nthreads;
    c->first = notes->first;
    c->signal = notes->signal;
    c->tids = PB_NEW_N(&c->arena, pid_t, c->ntids + 1);
    for (size_t i = 0; i < c->ntids; i++)
        c->tids[i] = notes->threads[i].tid;
}

int pb_core_open(struct pb_core *c, int fd, uid_t owner, const char *files_in,
                 struct pb_err *err)
{
    struct pb_core_notes notes = {0};
    Elf64_Phdr *ph = NULL;
    size_t nph = 0;

    memset(c, 0, sizeof *c);
    c->fd = fd;
    c->owner = owner;
    c->files_in = files_in;
    c->mem = (struct pb_mem){.read = read_core, .arg = c};
    if (read_headers(c, &ph, &nph, err) < 0)
        goto close;
    read_notes(c, ph, nph, &notes);
    if (make_regions(c, ph, nph, &notes, err) < 0)
        goto close;
    check_files(c);
    c->pid = notes.pid;
    c->command = notes.command ? notes.command : "";
    set_threads(c, &notes);
    return 0;
close:
    pb_core_close(c);
    return -1;
}

void pb_core_close(struct pb_core *c)
{
    for (size_t i = 0; i < c->nfiles; i++)
        if (c->files[i].fd >= 0)
            close(c->files[i].fd);
    pb_maps_finish(&c->maps);
    pb_arena_finish(&c->arena);
    if (c->fd >= 0)
        close(c->fd);
    memset(c, 0, sizeof *c);
    c->fd = -1;
}
