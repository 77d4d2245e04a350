#include "host/process/proc.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Longest command line or environment that is read; the rest is cut. */
#define BLOCK_MAX ((size_t)4 << 20)

/* tid 0 is the process itself. */
static int open_proc(pid_t pid, pid_t tid, const char *name)
{
    char path[96];

    if (tid)
        snprintf(path, sizeof path, "/proc/%d/task/%d/%s", (int)pid, (int)tid, name);
    else
        snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* A file that the kernel makes in one piece: what one read gives is all. */
static ssize_t read_small(char *buf, size_t cap, pid_t pid, pid_t tid, const char *name)
{
    int fd = open_proc(pid, tid, name);
    int saved;
    ssize_t n;

    if (fd < 0)
        return -1;
    while ((n = read(fd, buf, cap - 1)) < 0 && errno == EINTR)
        ;
    buf[n > 0 ? n : 0] = '\0';
    saved = errno;
    close(fd);
    errno = saved;
    return n;
}

static int fail(struct pb_err *err, pid_t pid, pid_t tid, int error)
{
    if (error == ENOENT || error == ESRCH) {
        if (tid && tid != pid)
            return pb_err_set(err, PB_NO_TARGET, "%d: no such thread in process %d", (int)tid,
                              (int)pid);
        return pb_err_set(err, PB_NO_TARGET, "%d: no such process", (int)pid);
    }
    if (error == EACCES || error == EPERM)
        return pb_err_set(err, PB_DENIED, "%d: not permitted", (int)pid);
    return pb_err_set(err, PB_FAIL, "%d: cannot read /proc: %s", (int)pid, strerror(error));
}

/* The fields behind the name, which may itself hold spaces and brackets. */
static bool parse_stat(struct pb_proc_stat *ret, const char *text)
{
    const char *open = strchr(text, '(');
    const char *close = strrchr(text, ')');
    size_t len;
    int n;

    if (!open || !close || close < open)
        return false;
    ret->pid = (pid_t)strtol(text, NULL, 10);
    len = (size_t)(close - open - 1);
    if (len >= sizeof ret->comm)
        len = sizeof ret->comm - 1;
    memcpy(ret->comm, open + 1, len);
    ret->comm[len] = '\0';
    n = sscanf(close + 1,
               " %c %d %*d %*d %*d %*d %u %*u %*u %*u %*u %" SCNu64 " %" SCNu64
               " %*d %*d %*d %*d %ld %*d %" SCNu64 " %*u %*d %*u %" SCNu64 " %*u %" SCNu64,
               &ret->state, &ret->ppid, &ret->flags, &ret->utime, &ret->stime, &ret->threads,
               &ret->start_time, &ret->code, &ret->stack);
    return n == 9;
}

int pb_proc_stat(struct pb_proc_stat *ret, pid_t pid, pid_t tid, struct pb_err *err)
{
    struct pb_proc_stat stat = {0};
    char text[1024];

    if (read_small(text, sizeof text, pid, tid, "stat") < 0)
        return fail(err, pid, tid, errno);
    if (!parse_stat(&stat, text))
        return pb_err_set(err, PB_FAIL, "%d: cannot make sense of /proc/%d/stat", (int)pid,
                          (int)pid);
    *ret = stat;
    return 0;
}

/* The value behind "Name:", NULL when the line is not there. */
static const char *status_field(const char *text, const char *name)
{
    size_t len = strlen(name);

    for (const char *line = text; line; line = strchr(line, '\n')) {
        if (*line == '\n')
            line++;
        if (strncmp(line, name, len) == 0 && line[len] == ':')
            return line + len + 1;
    }
    return NULL;
}

/* The last number on a line: NSpid lists one pid per namespace, innermost last. */
static long last_number(const char *line)
{
    long v = 0;

    while (*line && *line != '\n') {
        char *end;

        v = strtol(line, &end, 10);
        if (end == line)
            break;
        line = end;
        while (*line == '\t' || *line == ' ')
            line++;
    }
    return v;
}

static void parse_status(struct pb_proc_status *ret, pid_t pid, const char *text)
{
    const char *v;
    unsigned uid = 0, euid = 0, suid = 0, gid = 0, egid = 0;

    *ret = (struct pb_proc_status){.ns_pid = pid, .tgid = pid};
    if ((v = status_field(text, "Uid")) && sscanf(v, "%u %u %u", &uid, &euid, &suid) == 3) {
        ret->uid = uid;
        ret->euid = euid;
        ret->suid = suid;
    }
    if ((v = status_field(text, "Gid")) && sscanf(v, "%u %u", &gid, &egid) == 2)
        ret->egid = egid;
    if ((v = status_field(text, "Tgid")))
        ret->tgid = (pid_t)strtol(v, NULL, 10);
    if ((v = status_field(text, "TracerPid")))
        ret->tracer = (pid_t)strtol(v, NULL, 10);
    if ((v = status_field(text, "NSpid")))
        ret->ns_pid = (pid_t)last_number(v);
    if ((v = status_field(text, "Seccomp")))
        ret->seccomp = (int)strtol(v, NULL, 10);
    if ((v = status_field(text, "SigCgt")))
        ret->caught = strtoull(v, NULL, 16);
    if ((v = status_field(text, "VmRSS")))
        ret->rss_kb = strtoull(v, NULL, 10);
}

int pb_proc_status(struct pb_proc_status *ret, pid_t pid, struct pb_err *err)
{
    struct pb_arena a = PB_ARENA_INIT;
    size_t len;
    /* Not a fixed buffer: the line of groups has no limit, and NSpid stands behind it. */
    char *text = pb_proc_read(pid, "status", &a, &len);
    int error = errno;

    if (text)
        parse_status(ret, pid, text);
    pb_arena_finish(&a);
    return text ? 0 : fail(err, pid, 0, error);
}

void pb_proc_wait(struct pb_proc_wait *ret, pid_t pid, pid_t tid)
{
    char text[512];
    uint64_t *a = ret->args;

    *ret = (struct pb_proc_wait){.nr = -1};
    if (read_small(text, sizeof text, pid, tid, "syscall") < 0)
        return;
    ret->readable = true;
    if (strncmp(text, "running", 7) == 0)
        return;
    if (sscanf(text, "-1 %" SCNx64 " %" SCNx64, &ret->sp, &ret->pc) == 2) {
        ret->blocked = true;
        return;
    }
    ret->blocked =
        sscanf(text,
               "%ld %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64
               " %" SCNx64 " %" SCNx64,
               &ret->nr, &a[0], &a[1], &a[2], &a[3], &a[4], &a[5], &ret->sp, &ret->pc) == 9;
    ret->readable = ret->blocked;
}

bool pb_proc_schedstat(pid_t pid, pid_t tid, uint64_t *ret_runs, uint64_t *ret_ns)
{
    char text[128];
    uint64_t ns, runs;

    if (read_small(text, sizeof text, pid, tid, "schedstat") < 0)
        return false;
    if (sscanf(text, "%" SCNu64 " %*u %" SCNu64, &ns, &runs) != 2)
        return false;
    *ret_runs = runs;
    *ret_ns = ns;
    return true;
}

void pb_proc_wchan(char *buf, size_t cap, pid_t pid, pid_t tid)
{
    if (cap == 0)
        return;
    if (read_small(buf, cap, pid, tid, "wchan") < 0 || strcmp(buf, "0") == 0)
        buf[0] = '\0';
}

static int compare_pids(const void *a, const void *b)
{
    pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

    return (x > y) - (x < y);
}

/* Entries of a folder whose names are numbers, sorted; -1 with errno on failure. */
static int read_numbers(const char *path, struct pb_arena *a, pid_t **ret)
{
    DIR *dir = opendir(path);
    struct dirent *e;
    pid_t *v = NULL;
    size_t n = 0, cap = 0;

    if (!dir)
        return -1;
    while ((e = readdir(dir))) {
        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        if (n == cap) {
            v = pb_arena_grow(a, v, cap * sizeof *v, (cap ? cap * 2 : 64) * sizeof *v);
            cap = cap ? cap * 2 : 64;
        }
        v[n++] = (pid_t)strtol(e->d_name, NULL, 10);
    }
    closedir(dir);
    if (n)
        qsort(v, n, sizeof *v, compare_pids);
    *ret = v;
    return (int)n;
}

const char *pb_proc_state_name(char state)
{
    switch (state) {
    case 'R':
        return "running";
    case 'D':
        return "disk";
    case 'T':
        return "stopped";
    case 't':
        return "traced";
    case 'Z':
    case 'X':
        return "ended";
    default:
        return "waiting";
    }
}

int pb_proc_threads(pid_t pid, struct pb_arena *a, pid_t **ret, struct pb_err *err)
{
    char path[64];
    int n;

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    n = read_numbers(path, a, ret);
    if (n < 0)
        return fail(err, pid, 0, errno);
    /* The folder of a process that ends while it is read is empty. */
    return n ? n : fail(err, pid, 0, ESRCH);
}

int pb_proc_pids(struct pb_arena *a, pid_t **ret, struct pb_err *err)
{
    int n = read_numbers("/proc", a, ret);

    if (n <= 0)
        return pb_err_set(err, PB_FAIL, "cannot read /proc: %s",
                          n ? strerror(errno) : "it is empty; is it mounted?");
    return n;
}

char *pb_proc_read(pid_t pid, const char *name, struct pb_arena *a, size_t *ret_len)
{
    int fd = open_proc(pid, 0, name);
    size_t cap = 4096, len = 0;
    char *buf;

    if (fd < 0)
        return NULL;
    buf = pb_arena_alloc(a, cap);
    for (;;) {
        ssize_t n = read(fd, buf + len, cap - 1 - len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            int saved = errno;

            close(fd);
            errno = saved;
            return NULL;
        }
        len += (size_t)n;
        if (n == 0 || len >= BLOCK_MAX)
            break;
        if (len + 1 == cap) {
            buf = pb_arena_grow(a, buf, cap, cap * 2);
            cap *= 2;
        }
    }
    close(fd);
    buf[len] = '\0';
    *ret_len = len;
    return buf;
}

char *pb_proc_command(pid_t pid, struct pb_arena *a)
{
    struct pb_proc_stat stat;
    size_t len = 0;
    char *s = pb_proc_read(pid, "cmdline", a, &len);

    /* Titles set by the process itself may leave padding behind. */
    while (len && (s[len - 1] == '\0' || s[len - 1] == ' '))
        s[--len] = '\0';
    if (!s || len == 0) {
        if (pb_proc_stat(&stat, pid, 0, NULL) < 0)
            return pb_arena_strdup(a, "");
        return pb_arena_printf(a, "[%s]", stat.comm);
    }
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
            s[i] = ' ';
    }
    return s;
}

char *pb_proc_getenv(const char *environ_block, size_t len, const char *name)
{
    size_t name_len = strlen(name);

    for (size_t at = 0; at < len;) {
        const char *p = environ_block + at;
        size_t n = strnlen(p, len - at);

        if (n > name_len && p[name_len] == '=' && memcmp(p, name, name_len) == 0)
            return (char *)(uintptr_t)p + name_len + 1;
        at += n + 1;
    }
    return NULL;
}

char *pb_proc_user(uid_t uid, struct pb_arena *a)
{
    struct passwd pw, *found = NULL;
    char buf[4096];

    if (getpwuid_r(uid, &pw, buf, sizeof buf, &found) == 0 && found)
        return pb_arena_strdup(a, found->pw_name);
    return pb_arena_printf(a, "%u", (unsigned)uid);
}

uid_t pb_proc_inner_uid(pid_t pid, uid_t outside)
{
    char path[40];
    unsigned in, out, count;
    uid_t found = outside;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/uid_map", (int)pid);
    f = fopen(path, "re");
    while (f && fscanf(f, "%u %u %u", &in, &out, &count) == 3)
        if (outside >= out && outside - out < count)
            found = in + (outside - out);
    if (f)
        fclose(f);
    return found;
}
