#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/home.h"
#include "host/text/alloc.h"
#include "host/process/proc.h"
#include "node/discover/internal.h"

#define NS_PER_S 1000000000ll

/* A number of at most `digits` digits; NULL when there is none. */
static const char *number(const char *s, size_t digits, uint64_t *ret)
{
    size_t len = strspn(s, "0123456789");

    if (!len || len > digits)
        return NULL;
    *ret = strtoull(s, NULL, 10);
    return s + len;
}

bool pb_process_id_parse(const char *id, pid_t *ret_pid, uint64_t *ret_start)
{
    uint64_t pid, start;
    const char *end = number(id, 10, &pid);

    if (!end || *end != '-' || !(end = number(end + 1, 19, &start)) || *end)
        return false;
    if (!pid || pid > INT32_MAX)
        return false;
    *ret_pid = (pid_t)pid;
    *ret_start = start;
    return true;
}

bool pb_process_key_parse(const char *key, pid_t *ret_pid, uint64_t *ret_start, uid_t *ret_uid)
{
    char id[PB_PROCESS_ID_MAX];
    const char *last = strrchr(key, '-'), *end;
    uint64_t uid;

    *ret_uid = geteuid();
    if (pb_process_id_parse(key, ret_pid, ret_start))
        return true;
    if (!last || (size_t)(last - key) >= sizeof id || !(end = number(last + 1, 10, &uid)) || *end ||
        uid > UINT32_MAX)
        return false;
    memcpy(id, key, (size_t)(last - key));
    id[last - key] = '\0';
    *ret_uid = (uid_t)uid;
    return pb_process_id_parse(id, ret_pid, ret_start);
}

void pb_process_key(char buf[PB_PROCESS_ID_MAX], pid_t pid, uint64_t start, uid_t uid)
{
    int len = snprintf(buf, PB_PROCESS_ID_MAX, "%d-%llu", (int)pid, (unsigned long long)start);

    if (uid != geteuid())
        snprintf(buf + len, PB_PROCESS_ID_MAX - (size_t)len, "-%u", (unsigned)uid);
}

static int64_t clock_of(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return pb_clock_of_timespec(&ts);
}

int64_t pb_process_since_ns(uint64_t start)
{
    int64_t tick = NS_PER_S / sysconf(_SC_CLK_TCK);

    return clock_of(CLOCK_REALTIME) - clock_of(CLOCK_BOOTTIME) + (int64_t)start * tick;
}

/* Is it the one that the folder names, by its number inside and its age; and if so, is it of the
 * folder's owner? What root was when it began may have become somebody else. */
enum match { OTHER, NOT_OWN, OWN };

static enum match match(const struct pb_folder *f, pid_t pid)
{
    struct pb_proc_status st;

    if (pb_home_start_time(pid) != f->process.start || pb_proc_status(&st, pid, NULL) < 0 ||
        st.ns_pid != f->ns_pid || st.tgid != pid)
        return OTHER;
    return st.euid == f->owner || st.uid == f->owner || st.suid == f->owner || f->owner == 0
               ? OWN
               : NOT_OWN;
}

static ino_t pid_namespace(const char *pid)
{
    char path[64];
    struct stat st;

    snprintf(path, sizeof path, "/proc/%.20s/ns/pid", pid);
    return stat(path, &st) == 0 ? st.st_ino : 0;
}

void pb_inner_pids_forget(struct pb_inner_pids *p)
{
    free(p->v);
    *p = (struct pb_inner_pids){0};
}

static void list_inner(struct pb_inner_pids *p)
{
    ino_t own = pid_namespace("self");
    DIR *dir = opendir("/proc");
    struct dirent *e;

    p->listed = true;
    while (dir && (e = readdir(dir))) {
        pid_t pid = (pid_t)atoi(e->d_name);
        ino_t its = pid > 0 ? pid_namespace(e->d_name) : 0;
        struct pb_proc_status st;

        if (!its || its == own || pb_proc_status(&st, pid, NULL) < 0)
            continue;
        if (p->n % 64 == 0)
            p->v = pb_alloc_resize(p->v, (p->n + 64) * sizeof *p->v);
        p->v[p->n++] = (struct pb_inner_pid){pid, st.ns_pid, pb_home_start_time(pid)};
    }
    if (dir)
        closedir(dir);
}

/* A process of another pid namespace whose number there is the folder's. */
static pid_t find_inner(const struct pb_folder *f, struct pb_inner_pids *p)
{
    if (!p->listed)
        list_inner(p);
    for (size_t i = 0; i < p->n; i++)
        if (p->v[i].ns_pid == f->ns_pid && p->v[i].start == f->process.start &&
            match(f, p->v[i].pid) == OWN)
            return p->v[i].pid;
    return 0;
}

void pb_folder_judge(struct pb_folder *f, struct pb_inner_pids *inner)
{
    enum match here = match(f, f->ns_pid);
    pid_t pid = here == OWN ? f->ns_pid : find_inner(f, inner);

    f->judged = true;
    f->forged = !pid && here == NOT_OWN;
    f->process.live = pid > 0;
    f->process.pid = pid > 0 ? pid : f->ns_pid;
    if (!pid)
        return;
    f->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    /* The number may have gone to another one just before. */
    if (f->pidfd >= 0 && match(f, pid) != OWN) {
        close(f->pidfd);
        f->pidfd = -1;
        f->process.live = false;
    }
}

bool pb_folder_lives(const struct pb_folder *f)
{
    struct pollfd p = {.fd = f->pidfd, .events = POLLIN};

    if (f->pidfd >= 0)
        return poll(&p, 1, 0) == 0;
    return pb_home_start_time(f->process.pid) == f->process.start;
}
