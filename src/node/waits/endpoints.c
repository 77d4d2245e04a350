/*
 * Who has which pipe and socket open: one pass over /proc when the first question comes.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/process/proc.h"
#include "node/waits/internal.h"

#define ENDS_MAX 200000

struct end {
    uint64_t inode;
    pid_t pid;
    bool socket, reads, writes;
};

struct pb_endpoints {
    struct end *v;
    size_t n, cap;
};

static void add(struct pb_wait_look *l, const struct end *e)
{
    struct pb_endpoints *p = l->ends;

    if (p->n == ENDS_MAX)
        return;
    if (p->n == p->cap) {
        size_t cap = p->cap ? p->cap * 2 : 1024;

        p->v = pb_arena_grow(l->arena, p->v, p->cap * sizeof *p->v, cap * sizeof *p->v);
        p->cap = cap;
    }
    p->v[p->n++] = *e;
}

/* Of what is known here: a file system that does not answer, over the network or in somebody's
   process, must not hold up who looks. */
bool pb_wait_stat(int dir, const char *name, struct statx *ret)
{
    return statx(dir, name, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE | STATX_INO, ret) == 0;
}

static void add_link(struct pb_wait_look *l, pid_t pid, int dir, const char *name)
{
    char link[64];
    struct end e = {.pid = pid};
    struct stat st;
    struct statx x;
    ssize_t n = readlinkat(dir, name, link, sizeof link - 1);

    if (n <= 0)
        return;
    link[n] = '\0';
    e.socket = strncmp(link, "socket:[", 8) == 0;
    /* The rights on the link itself are those that the file was opened with. */
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    e.reads = st.st_mode & S_IRUSR;
    e.writes = st.st_mode & S_IWUSR;
    if (e.socket || strncmp(link, "pipe:[", 6) == 0) {
        e.inode = strtoull(strchr(link, '[') + 1, NULL, 10);
    } else {
        if (link[0] != '/' || !pb_wait_stat(dir, name, &x) || !S_ISFIFO(x.stx_mode))
            return;
        e.inode = x.stx_ino;
    }
    add(l, &e);
}

static void add_process(struct pb_wait_look *l, pid_t pid)
{
    char name[32];
    struct dirent *d;
    DIR *dir;

    snprintf(name, sizeof name, "/proc/%d/fd", (int)pid);
    dir = opendir(name);
    while (dir && (d = readdir(dir)))
        if (d->d_name[0] != '.')
            add_link(l, pid, dirfd(dir), d->d_name);
    if (dir)
        closedir(dir);
}

static struct pb_endpoints *ends(struct pb_wait_look *l)
{
    struct pb_err ignored = {0};
    pid_t *pids;
    int n;

    if (l->ends)
        return l->ends;
    l->ends = PB_NEW(l->arena, struct pb_endpoints);
    n = pb_proc_pids(l->arena, &pids, &ignored);
    for (int i = 0; i < n; i++)
        add_process(l, pids[i]);
    return l->ends;
}

static size_t collect(const struct pb_endpoints *p, uint64_t inode, bool socket, bool writers,
                      pid_t except, pid_t *ret, size_t max)
{
    size_t n = 0;

    for (size_t i = 0; inode && i < p->n && n < max; i++) {
        const struct end *e = &p->v[i];
        bool known = e->pid == except;

        if (e->inode != inode || e->socket != socket ||
            (!socket && !(writers ? e->writes : e->reads)))
            continue;
        for (size_t k = 0; k < n; k++)
            known = known || ret[k] == e->pid;
        if (!known)
            ret[n++] = e->pid;
    }
    return n;
}

size_t pb_endpoints_pipe(struct pb_wait_look *l, uint64_t inode, bool writers, pid_t except,
                         pid_t *ret, size_t max)
{
    return collect(ends(l), inode, false, writers, except, ret, max);
}

size_t pb_endpoints_socket(struct pb_wait_look *l, uint64_t inode, pid_t *ret, size_t max)
{
    return collect(ends(l), inode, true, true, 0, ret, max);
}
