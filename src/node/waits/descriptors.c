/*
 * What a descriptor is, and who has its other end.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/process/mem.h"
#include "host/process/proc.h"
#include "host/text/secret.h"
#include "node/waits/internal.h"

#define POLLED_MAX 64 /* descriptors of one poll that are looked at */

static bool read_link(pid_t pid, int fd, char *buf, size_t cap)
{
    char name[64];
    ssize_t n;

    snprintf(name, sizeof name, "/proc/%d/fd/%d", (int)pid, fd);
    n = readlink(name, buf, cap - 1);
    buf[n > 0 ? n : 0] = '\0';
    return n > 0;
}

static uint64_t inode_in(const char *link)
{
    const char *at = strchr(link, '[');

    return at ? strtoull(at + 1, NULL, 10) : 0;
}

static void add_pids(struct pb_wait *w, const pid_t *v, size_t n)
{
    for (size_t i = 0; i < n && w->npeers < PB_WAIT_PEERS; i++)
        w->peers[w->npeers++] = (struct pb_wait_peer){v[i], 0};
}

/* The command line, its secrets masked. */
static const char *command_of(struct pb_wait_look *l, pid_t pid)
{
    size_t len = 0;
    char *words = pb_proc_read(pid, "cmdline", l->arena, &len);
    char *command = pb_proc_command(pid, l->arena);

    return command ? pb_secret_command(words ? words : "", len, command, l->arena) : "?";
}

/* "process 12 (sleep 99)", or how many there are. */
static const char *name_peers(struct pb_wait_look *l, const pid_t *v, size_t n)
{
    if (n == 1)
        return pb_arena_printf(l->arena, "process %d (%.60s)", (int)v[0], command_of(l, v[0]));
    return pb_arena_printf(l->arena, "%zu processes, %d among them", n, n ? (int)v[0] : 0);
}

/*
 * Does a program without Python wait for news from elsewhere: a file that changes, a terminal, the
 * network? Then an answer of it is late for a reason that is not seen from here.
 */
static bool waits_elsewhere(pid_t pid)
{
    char exe[256], link[256];
    struct pb_proc_wait b;
    ssize_t n;

    snprintf(link, sizeof link, "/proc/%d/exe", (int)pid);
    n = readlink(link, exe, sizeof exe - 1);
    exe[n > 0 ? n : 0] = '\0';
    if (n <= 0 || strstr(exe, "python"))
        return false;
    pb_proc_wait(&b, pid, pid);
    if (!b.blocked)
        return false;
    switch (b.nr) {
    case SYS_read:
        return read_link(pid, (int)b.args[0], link, sizeof link) &&
               (strncmp(link, "anon_inode:", 11) == 0 || strncmp(link, "/dev/pts/", 9) == 0);
#ifdef SYS_poll
    case SYS_poll:
    case SYS_select:
    case SYS_epoll_wait:
#endif
    case SYS_ppoll:
    case SYS_pselect6:
    case SYS_epoll_pwait:
    case SYS_accept:
    case SYS_accept4:
        return true;
    }
    return false;
}

static void on_pipe(struct pb_wait_look *l, struct pb_wait *w, const char *link, bool writes,
                    const char *verb)
{
    pid_t found[PB_WAIT_PEERS];
    size_t n = pb_endpoints_pipe(l, inode_in(link), !writes, w->process->pid, found,
                                 PB_WAIT_PEERS);

    w->kind = PB_WAIT_PIPE;
    w->alone = n == 0;
    w->outside = n == 1 && !writes && waits_elsewhere(found[0]);
    add_pids(w, found, n);
    w->what = n ? pb_arena_printf(l->arena, "%s a pipe; at its other end: %s", verb,
                                  name_peers(l, found, n))
                : pb_arena_printf(l->arena, "%s a pipe that no other process has open", verb);
}

static void on_socket(struct pb_wait_look *l, struct pb_wait *w, const char *link,
                      const char *verb)
{
    struct pb_socket s;
    pid_t found[PB_WAIT_PEERS];
    size_t n = 0;

    w->kind = PB_WAIT_SOCKET;
    pb_socket_look(l->arena, w->process->pid, inode_in(link), &s);
    if (s.listens) {
        w->kind = PB_WAIT_LISTEN;
        w->outside = true;
        w->what = "a client to connect";
        return;
    }
    if (s.peer)
        n = pb_endpoints_socket(l, s.peer, found, PB_WAIT_PEERS);
    add_pids(w, found, n);
    w->alone = n == 1 && found[0] == w->process->pid;
    w->spoke = s.spoke;
    w->asked = s.asked;
    w->outside = n == 0;
    w->what = pb_arena_printf(l->arena, "%s a socket%s%s", verb, *s.where ? " of " : "", s.where);
    if (n)
        w->what = pb_arena_printf(l->arena, "%s; %s: %s", w->what,
                                  s.unaccepted ? "nobody has accepted the connection there yet"
                                               : "at its other end", name_peers(l, found, n));
}

void pb_wait_descriptor(struct pb_wait_look *l, struct pb_wait *w, int fd, bool writes,
                        const char *verb)
{
    char link[256];

    w->kind = PB_WAIT_OTHER;
    if (!read_link(w->process->pid, fd, link, sizeof link)) {
        w->what = pb_arena_printf(l->arena, "%s descriptor %d", verb, fd);
    } else if (strncmp(link, "pipe:", 5) == 0) {
        on_pipe(l, w, link, writes, verb);
    } else if (strncmp(link, "socket:", 7) == 0) {
        on_socket(l, w, link, verb);
    } else if (strncmp(link, "/dev/pts/", 9) == 0 || strncmp(link, "/dev/tty", 8) == 0) {
        w->kind = PB_WAIT_TERMINAL;
        w->what = "somebody to type";
        w->outside = true;
    } else if (strncmp(link, "anon_inode:", 11) == 0) {
        w->what = pb_arena_printf(l->arena, "%s an %s", verb, link + 11);
        w->outside = true;
    } else {
        char name[64];
        struct statx st;

        snprintf(name, sizeof name, "/proc/%d/fd/%d", (int)w->process->pid, fd);
        if (pb_wait_stat(AT_FDCWD, name, &st) && S_ISFIFO(st.stx_mode)) {
            w->kind = PB_WAIT_PIPE;
            on_pipe(l, w, pb_arena_printf(l->arena, "pipe:[%llu]",
                                          (unsigned long long)st.stx_ino), writes, verb);
            return;
        }
        w->kind = PB_WAIT_DISK;
        w->what = pb_arena_printf(l->arena, "%s %s", verb, link);
    }
}

static size_t of_poll(const struct pb_wait *w, struct pollfd *v)
{
    const struct pb_proc_wait *b = &w->thread->blocked;
    size_t n = b->args[1] < POLLED_MAX ? (size_t)b->args[1] : POLLED_MAX;
    struct pb_mem mem;

    pb_mem_init_process(&mem, w->process->pid);
    return n && pb_mem_get(&mem, b->args[0], v, n * sizeof *v) ? n : 0;
}

static size_t of_select(const struct pb_wait *w, struct pollfd *v)
{
    const struct pb_proc_wait *b = &w->thread->blocked;
    size_t max = b->args[0] < FD_SETSIZE ? (size_t)b->args[0] : FD_SETSIZE, n = 0;
    uint64_t sets[2][FD_SETSIZE / 64] = {{0}};
    struct pb_mem mem;

    pb_mem_init_process(&mem, w->process->pid);
    for (int i = 0; i < 2; i++)
        if (b->args[1 + i])
            pb_mem_get(&mem, b->args[1 + i], sets[i], (max + 63) / 64 * 8);
    for (size_t fd = 0; fd < max && n < POLLED_MAX; fd++) {
        bool in = sets[0][fd / 64] >> (fd % 64) & 1, out = sets[1][fd / 64] >> (fd % 64) & 1;

        if (in || out)
            v[n++] = (struct pollfd){.fd = (int)fd, .events = in ? POLLIN : POLLOUT};
    }
    return n;
}

/* "tfd:       5 events:       19 …" of an epoll descriptor. */
static size_t of_epoll(struct pb_wait_look *l, const struct pb_wait *w, struct pollfd *v)
{
    char name[40];
    size_t len, n = 0;
    char *text, *line;

    snprintf(name, sizeof name, "fdinfo/%d", (int)w->thread->blocked.args[0]);
    text = pb_proc_read(w->process->pid, name, l->arena, &len);
    while (text && (line = strsep(&text, "\n")) && n < POLLED_MAX) {
        int fd;
        unsigned events;

        if (sscanf(line, "tfd: %d events: %x", &fd, &events) == 2)
            v[n++] = (struct pollfd){.fd = fd, .events = events & POLLIN ? POLLIN : POLLOUT};
    }
    return n;
}

static size_t polled(struct pb_wait_look *l, struct pb_wait *w, struct pollfd *v)
{
    const struct pb_proc_wait *b = &w->thread->blocked;

    switch (b->nr) {
#ifdef SYS_poll
    case SYS_poll:
        w->timed = (int)b->args[2] >= 0;
        return of_poll(w, v);
    case SYS_select:
        w->timed = b->args[4] != 0;
        return of_select(w, v);
    case SYS_epoll_wait:
#endif
    case SYS_epoll_pwait:
        w->timed = (int)b->args[3] >= 0;
        return of_epoll(l, w, v);
    case SYS_ppoll:
        w->timed = b->args[2] != 0;
        return of_poll(w, v);
    case SYS_pselect6:
        w->timed = b->args[4] != 0;
        return of_select(w, v);
    }
    return 0;
}

static bool is_epoll(long nr)
{
#ifdef SYS_epoll_wait
    if (nr == SYS_epoll_wait)
        return true;
#endif
    return nr == SYS_epoll_pwait;
}

/* One descriptor is as good as a read of it; of several, all that could end the wait. */
void pb_wait_descriptors(struct pb_wait_look *l, struct pb_wait *w)
{
    struct pollfd v[POLLED_MAX];
    size_t n = polled(l, w, v);
    bool own_only = n > 0, outside = false;
    const char *first = NULL;

    if (n == 1 && !is_epoll(w->thread->blocked.nr)) {
        bool writes = v[0].events & POLLOUT && !(v[0].events & POLLIN);

        pb_wait_descriptor(l, w, v[0].fd, writes, writes ? "room in" : "data from");
        if (w->kind != PB_WAIT_OTHER)
            return;
    }
    for (size_t i = 0; i < n; i++) {
        struct pb_wait one = *w;

        one.npeers = 0;
        one.outside = one.alone = false;
        pb_wait_descriptor(l, &one, v[i].fd, !(v[i].events & POLLIN), "data from");
        outside = outside || one.outside;
        own_only = own_only && one.alone;
        for (size_t k = 0; k < one.npeers; k++) {
            first = first ? first : one.what;
            if (one.peers[k].pid != w->process->pid && w->npeers < PB_WAIT_PEERS)
                w->peers[w->npeers++] = one.peers[k];
        }
    }
    w->kind = n ? PB_WAIT_POLL : PB_WAIT_OTHER;
    w->alone = own_only;
    w->outside = outside || !n;
    w->what = w->npeers && first ? first
              : n               ? pb_arena_printf(l->arena, "one of %zu descriptors", n)
              : w->thread->wait ? w->thread->wait
                                : NULL;
}

void pb_wait_file_lock(struct pb_wait_look *l, struct pb_wait *w, int fd)
{
    char name[64], link[256] = "";
    struct statx st;
    size_t len;
    char *text, *line;

    w->kind = PB_WAIT_FILE_LOCK;
    read_link(w->process->pid, fd, link, sizeof link);
    w->what = pb_arena_printf(l->arena, "a lock on %s", link);
    snprintf(name, sizeof name, "/proc/%d/fd/%d", (int)w->process->pid, fd);
    if (!pb_wait_stat(AT_FDCWD, name, &st))
        return;
    text = pb_proc_read(w->process->pid, "../locks", l->arena, &len);
    while (text && (line = strsep(&text, "\n"))) {
        unsigned long long inode;
        int pid;

        /* "1: FLOCK  ADVISORY  WRITE 1234 fe:01:5678 0 EOF"; waiting ones have "->" in front. */
        if (!strstr(line, "->") &&
            sscanf(line, "%*d: %*s %*s %*s %d %*x:%*x:%llu", &pid, &inode) == 2 &&
            inode == st.stx_ino && w->npeers < PB_WAIT_PEERS && pid > 0)
            w->peers[w->npeers++] = (struct pb_wait_peer){(pid_t)pid, 0};
    }
}
