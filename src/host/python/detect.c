#include "host/python/detect.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/process/maps.h"
#include "host/process/proc.h"
#include "host/python/version.h"

/* One file that was looked at. Programs are known by stat, libraries by the numbers in maps. */
struct pb_py_known_file {
    struct pb_py_known_file *next;
    bool is_library;
    uint64_t dev, inode;
    bool is_python;
    bool needs_maps; /* a program that does not hold an interpreter itself: ask each process */
    struct pb_py_found found;
};

void pb_py_detector_init(struct pb_py_detector *d, struct pb_arena *a)
{
    *d = (struct pb_py_detector){.arena = a};
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

bool pb_py_is_program_name(const char *path)
{
    const char *p = base_name(path);

    if (strncmp(p, "python", 6) != 0)
        return false;
    p += 6;
    p += strspn(p, "0123456789.");
    /* Builds are marked by letters: python3.6m, python3.13t, python3.14d, python3-dbg. */
    if (strcmp(p, "-dbg") == 0 || strcmp(p, "-debug") == 0)
        return true;
    p += strspn(p, "dmtu");
    return *p == '\0' || strcmp(p, " (deleted)") == 0;
}

static void set_version(struct pb_py_found *f, struct pb_py_version v)
{
    if (v.minor >= 0)
        f->number = v;
    if (v.minor >= 0 && v.micro >= 0)
        snprintf(f->version, sizeof f->version, "%d.%d.%d", v.major, v.minor, v.micro);
    else if (v.minor >= 0)
        snprintf(f->version, sizeof f->version, "%d.%d", v.major, v.minor);
}

static struct pb_py_known_file *find_known(struct pb_py_detector *d, bool is_library, uint64_t dev,
                                           uint64_t inode)
{
    for (struct pb_py_known_file *f = d->files; f; f = f->next) {
        if (f->is_library == is_library && f->dev == dev && f->inode == inode)
            return f;
    }
    return NULL;
}

static struct pb_py_known_file *add_known(struct pb_py_detector *d, bool is_library, uint64_t dev,
                                          uint64_t inode)
{
    struct pb_py_known_file *f = PB_NEW(d->arena, struct pb_py_known_file);

    *f = (struct pb_py_known_file){
        .next = d->files, .is_library = is_library, .dev = dev, .inode = inode};
    d->files = f;
    return f;
}

static bool is_interpreter_symbol(const struct pb_elf_sym *sym, void *arg)
{
    (void)arg;
    return strcmp(sym->name, "Py_GetVersion") == 0 || strcmp(sym->name, "_PyRuntime") == 0;
}

/* Takes the file behind fd apart, and closes it; false when it holds no interpreter. */
static bool read_interpreter(struct pb_py_detector *d, int fd, const char *path,
                             struct pb_py_found *ret)
{
    struct pb_elf elf;
    bool is_python;

    if (fd < 0)
        return false;
    if (pb_elf_open_fd(&elf, fd, NULL) < 0) {
        close(fd);
        return false;
    }
    is_python = pb_elf_each_symbol(&elf, PB_ELF_DYNSYM, is_interpreter_symbol, NULL);
    if (is_python) {
        set_version(ret, pb_py_version_of(&elf, path));
        ret->module = pb_arena_strdup(d->arena, path);
    }
    pb_elf_close(&elf);
    close(fd);
    return is_python;
}

/* One line of maps that names a libpython; false when it cannot be made sense of. */
static bool parse_library_line(struct pb_map *ret, const char *line, char *path, size_t cap)
{
    static const char deleted[] = " (deleted)";
    size_t len = strcspn(line, "\n");
    const char *slash = memchr(line, '/', len);
    int n;

    *ret = (struct pb_map){.read = true};
    n = sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %x:%x %" SCNu64, &ret->start,
               &ret->end, &ret->offset, &ret->dev_major, &ret->dev_minor, &ret->inode);
    if (n != 6 || !slash || len - (size_t)(slash - line) >= cap)
        return false;
    len -= (size_t)(slash - line);
    memcpy(path, slash, len);
    path[len] = '\0';
    if (len > sizeof deleted - 1 && strcmp(path + len - (sizeof deleted - 1), deleted) == 0) {
        path[len - (sizeof deleted - 1)] = '\0';
        ret->deleted = true;
    }
    ret->path = path;
    return true;
}

/* The first line of maps whose file is called libpython…; NULL when there is none. */
static const char *find_library_line(const char *maps, size_t len)
{
    static const char name[] = "/libpython";
    const char *end = maps + len;
    const char *p = maps;

    while ((p = memmem(p, (size_t)(end - p), name, sizeof name - 1))) {
        const char *rest = p + sizeof name - 1;
        const char *line = p;

        while (line > maps && line[-1] != '\n')
            line--;
        /* libpython3.11.so, not a folder of that name and not libpython's debug data. */
        if (isdigit((unsigned char)*rest) && !memchr(rest, '/', strcspn(rest, "\n")))
            return line;
        p = rest;
    }
    return NULL;
}

static bool detect_library(struct pb_py_detector *d, pid_t pid, struct pb_py_found *ret)
{
    struct pb_arena scratch = PB_ARENA_INIT;
    struct pb_py_known_file *known;
    char path[PATH_MAX];
    size_t len = 0;
    const char *maps = pb_proc_read(pid, "maps", &scratch, &len);
    const char *line = maps ? find_library_line(maps, len) : NULL;
    struct pb_map map;
    bool ok = line && parse_library_line(&map, line, path, sizeof path);

    pb_arena_finish(&scratch);
    if (!ok)
        return false;
    known = find_known(d, true, (uint64_t)map.dev_major << 32 | map.dev_minor, map.inode);
    if (!known) {
        known = add_known(d, true, (uint64_t)map.dev_major << 32 | map.dev_minor, map.inode);
        known->is_python = true;
        known->found.how = pb_arena_printf(d->arena, "maps %s", base_name(path));
        /* A deleted library may be out of reach; its name still tells the version. */
        if (!read_interpreter(d, pb_maps_open_file(pid, &map, NULL), path, &known->found)) {
            int major, minor;

            known->found.module = pb_arena_strdup(d->arena, path);
            if (sscanf(base_name(path), "libpython%d.%d", &major, &minor) == 2)
                set_version(&known->found, (struct pb_py_version){major, minor, -1});
        }
    }
    *ret = known->found;
    return true;
}

static void look_at_program(struct pb_py_detector *d, pid_t pid, const char *exe, const char *path,
                            struct pb_py_known_file *known)
{
    struct pb_py_found *f = &known->found;

    if (read_interpreter(d, open(exe, O_RDONLY | O_CLOEXEC), path, f)) {
        known->is_python = true;
        f->how = pb_arena_printf(d->arena, "%s is an interpreter", base_name(path));
    } else if (!pb_py_is_program_name(path)) {
        known->needs_maps = true;
    } else {
        /* Linked to a libpython, or stripped of everything but its name. */
        known->is_python = true;
        if (!detect_library(d, pid, f))
            f->how = pb_arena_printf(d->arena, "named %s", base_name(path));
    }
}

/* What /proc shows of any process: enough to tell `python train.py`. */
static bool detect_by_name(struct pb_py_detector *d, pid_t pid, struct pb_py_found *ret)
{
    struct pb_arena scratch = PB_ARENA_INIT;
    size_t len = 0;
    const char *cmdline = pb_proc_read(pid, "cmdline", &scratch, &len);
    bool is_python = cmdline && pb_py_is_program_name(cmdline);
    int major, minor;

    if (is_python) {
        ret->how = pb_arena_printf(d->arena, "named %s; not readable", base_name(cmdline));
        if (sscanf(base_name(cmdline), "python%d.%d", &major, &minor) == 2)
            set_version(ret, (struct pb_py_version){major, minor, -1});
    }
    pb_arena_finish(&scratch);
    return is_python;
}

bool pb_py_detect(struct pb_py_detector *d, pid_t pid, struct pb_py_found *ret)
{
    struct pb_py_known_file *known;
    char exe[32], path[PATH_MAX];
    struct stat st;
    ssize_t n;

    *ret = (struct pb_py_found){0};
    snprintf(exe, sizeof exe, "/proc/%d/exe", (int)pid);
    n = readlink(exe, path, sizeof path - 1);
    if (n < 0)
        return (errno == EACCES || errno == EPERM) && detect_by_name(d, pid, ret);
    path[n] = '\0';
    if (stat(exe, &st) < 0)
        return detect_library(d, pid, ret);
    known = find_known(d, false, st.st_dev, st.st_ino);
    if (!known) {
        known = add_known(d, false, st.st_dev, st.st_ino);
        look_at_program(d, pid, exe, path, known);
    }
    if (known->needs_maps)
        return detect_library(d, pid, ret);
    *ret = known->found;
    return known->is_python;
}
