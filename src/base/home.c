#include "base/home.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"

const char *const pb_home_roots[] = {"/dev/shm", "/tmp", NULL};

/* By number: the C library's fstat is younger than the oldest one that we load into. */
static int file_status(int fd, struct stat *st)
{
    return (int)syscall(SYS_fstat, fd, st);
}

int pb_home_check(int fd, uid_t uid)
{
    struct stat st;

    if (file_status(fd, &st) < 0)
        return -errno;
    if (!S_ISDIR(st.st_mode))
        return -ENOTDIR;
    return st.st_uid == uid && (st.st_mode & 077) == 0 ? 0 : -EPERM;
}

static int open_checked(int at, const char *name, uid_t uid)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int rc;

    if (fd < 0)
        return -errno;
    rc = pb_home_check(fd, uid);
    if (rc < 0) {
        close(fd);
        return rc;
    }
    return fd;
}

static void default_path(char buf[PB_HOME_MAX], const char *root, uid_t uid)
{
    snprintf(buf, PB_HOME_MAX, "%s/probing-%u", root, (unsigned)uid);
}

/* Looks for the first name behind `after` that another folder of this user may have. */
struct lookup {
    const char *prefix; /* "probing-<uid>-" */
    const char *after;
    uid_t owner;
    char best[PB_HOME_MAX];
};

static bool is_random_name(const char *name, const char *prefix)
{
    size_t len = strlen(prefix);

    return strncmp(name, prefix, len) == 0 && strlen(name + len) == PB_HOME_RANDOM &&
           strspn(name + len, "0123456789abcdef") == PB_HOME_RANDOM;
}

static bool compare_name(int root, const char *name, void *arg)
{
    struct lookup *l = arg;
    int fd;

    if (!is_random_name(name, l->prefix) || strcmp(name, l->after) <= 0 ||
        (l->best[0] && strcmp(name, l->best) >= 0))
        return true;
    fd = open_checked(root, name, l->owner);
    if (fd >= 0) {
        close(fd);
        snprintf(l->best, sizeof l->best, "%s", name);
    }
    return true;
}

int pb_home_next(char path[PB_HOME_MAX], const char *root, uid_t name, uid_t owner)
{
    char first[PB_HOME_MAX], prefix[32];
    struct lookup l = {.prefix = prefix, .owner = owner};
    int at, fd;

    default_path(first, root, name);
    if (!path[0] && (fd = open_checked(AT_FDCWD, first, owner)) >= 0) {
        memcpy(path, first, sizeof first);
        return fd;
    }
    /* It is never made where there is another one already: it is the only one. */
    if (strcmp(path, first) == 0)
        return -ENOENT;
    snprintf(prefix, sizeof prefix, "probing-%u-", (unsigned)name);
    l.after = path[0] ? strrchr(path, '/') + 1 : "";
    at = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return -errno;
    pb_home_list(at, compare_name, &l);
    fd = l.best[0] ? open_checked(at, l.best, owner) : -ENOENT;
    close(at);
    if (fd >= 0 && snprintf(path, PB_HOME_MAX, "%s/%s", root, l.best) >= PB_HOME_MAX) {
        close(fd);
        fd = -ENAMETOOLONG;
    }
    return fd;
}

/* A folder with a name that nobody can have taken before. */
static int create_random(char path[PB_HOME_MAX], const char *root, uid_t uid)
{
    for (int i = 0; i < 5; i++) {
        uint64_t secret = 0;

        if (syscall(SYS_getrandom, &secret, sizeof secret, 1u /* GRND_NONBLOCK */) !=
            (long)sizeof secret)
            secret = pb_clock_ns() * UINT64_C(0x9e3779b97f4a7c15);
        if (snprintf(path, PB_HOME_MAX, "%s/probing-%u-%016llx", root, (unsigned)uid,
                     (unsigned long long)secret) >= PB_HOME_MAX)
            return -ENAMETOOLONG;
        if (mkdirat(AT_FDCWD, path, 0700) == 0)
            return open_checked(AT_FDCWD, path, uid);
        if (errno != EEXIST)
            return -errno;
    }
    return -EEXIST;
}

int pb_home_user_create(char path[PB_HOME_MAX], const char *root, uid_t uid)
{
    int fd;

    path[0] = '\0';
    fd = pb_home_next(path, root, uid, uid);
    if (fd >= 0)
        return fd;
    default_path(path, root, uid);
    if (mkdirat(AT_FDCWD, path, 0700) < 0 && errno != EEXIST)
        return -errno;
    fd = open_checked(AT_FDCWD, path, uid);
    /* Somebody else was there first, with a folder, a link or whatever. */
    return fd >= 0 || fd == -ENOENT ? fd : create_random(path, root, uid);
}

void pb_home_user_path(char buf[PB_HOME_MAX], const char *root, uid_t uid)
{
    int fd;

    buf[0] = '\0';
    fd = pb_home_next(buf, root, uid, uid);
    if (fd >= 0)
        close(fd);
    else
        default_path(buf, root, uid);
}

/* Behind the path of the user's folder. */
static int add_process(char path[PB_HOME_MAX], pid_t pid, uint64_t start)
{
    size_t len = strlen(path);

    return snprintf(path + len, PB_HOME_MAX - len, "/%d-%llu", (int)pid,
                    (unsigned long long)start) < (int)(PB_HOME_MAX - len)
               ? 0
               : -ENAMETOOLONG;
}

void pb_home_path(char buf[PB_HOME_MAX], const char *root, uid_t uid, pid_t pid, uint64_t start)
{
    pb_home_user_path(buf, root, uid);
    add_process(buf, pid, start);
}

static int create_once(char path[PB_HOME_MAX], const char *root, uid_t uid, pid_t pid,
                       uint64_t start)
{
    int user = pb_home_user_create(path, root, uid), fd;

    if (user < 0)
        return user;
    fd = add_process(path, pid, start);
    /* What was there is our own: left by exec, or by the agent before. */
    if (fd == 0 && mkdirat(user, strrchr(path, '/') + 1, 0700) < 0 && errno != EEXIST)
        fd = -errno;
    else if (fd == 0)
        fd = open_checked(user, strrchr(path, '/') + 1, uid);
    close(user);
    return fd;
}

int pb_home_create(char path[PB_HOME_MAX], const char *root, uid_t uid, pid_t pid, uint64_t start)
{
    int fd = -ENOENT;

    /* The last agent to leave removes the user's folder, perhaps under our feet. */
    for (int i = 0; i < 5 && fd == -ENOENT; i++)
        fd = create_once(path, root, uid, pid, start);
    return fd;
}

void pb_home_remove(const char *path)
{
    char text[PB_HOME_MAX + 64], *slash;
    size_t len = strlen(path);

    if (!len || len > PB_HOME_MAX)
        return;
    memcpy(text, path, len);
    memcpy(text + len, "/" PB_HOME_SOCKET, sizeof "/" PB_HOME_SOCKET);
    unlink(text);
    text[len] = '\0';
    rmdir(text);
    slash = strrchr(text, '/');
    if (slash)
        *slash = '\0';
    rmdir(text);
}

bool pb_home_is_ring(const char *name)
{
    size_t len = strlen(name), end = sizeof PB_HOME_RING - 1;

    return len > end && strcmp(name + len - end, PB_HOME_RING) == 0;
}

struct dirent64_raw {
    uint64_t ino;
    int64_t off;
    uint16_t len;
    uint8_t type;
    char name[];
};

void pb_home_list(int fd, bool (*each)(int fd, const char *name, void *arg), void *arg)
{
    _Alignas(8) char buf[4096];
    long n;

    lseek(fd, 0, SEEK_SET);
    /* The system call itself: opendir allocates. */
    while ((n = syscall(SYS_getdents64, fd, buf, sizeof buf)) > 0) {
        for (long at = 0; at < n;) {
            const struct dirent64_raw *d = (const void *)(buf + at);

            at += d->len;
            if (d->name[0] != '.' && !each(fd, d->name, arg))
                return;
        }
    }
}

static bool is_ours(const char *name)
{
    return pb_home_is_ring(name) || strncmp(name, PB_HOME_META, sizeof PB_HOME_META - 1) == 0 ||
           strncmp(name, PB_HOME_STATUS, sizeof PB_HOME_STATUS - 1) == 0 ||
           strncmp(name, PB_HOME_PROGRESS, sizeof PB_HOME_PROGRESS - 1) == 0 ||
           strcmp(name, PB_HOME_CRASH) == 0 || strcmp(name, PB_HOME_END) == 0;
}

static bool erase_file(int fd, const char *name, void *arg)
{
    (void)arg;
    if (is_ours(name))
        unlinkat(fd, name, 0);
    return true;
}

void pb_home_erase(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0) {
        pb_home_list(fd, erase_file, NULL);
        close(fd);
    }
    pb_home_remove(path);
}

void pb_home_boot_id(char buf[40])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, buf, 39) : 0;

    if (fd >= 0)
        close(fd);
    buf[n > 0 ? n : 0] = '\0';
    buf[strcspn(buf, "\n")] = '\0';
}

uint64_t pb_home_start_time(pid_t pid)
{
    char path[40], text[1024], *p, state = '\0';
    bool alone = false;
    uint64_t v = 0;
    ssize_t n;
    int fd;

    if (pid)
        snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    else
        snprintf(path, sizeof path, "/proc/self/stat");
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    /* The name may hold spaces and parentheses; behind its end comes the 3rd field. */
    p = strrchr(text, ')');
    for (int field = 2; p && field < 22; field++) {
        p = strchr(p + 1, ' ');
        if (field == 2 && p)
            state = p[1];
        else if (field == 19 && p)
            alone = p[1] == '0' || (p[1] == '1' && p[2] == ' ');
    }
    /* Others may live on when the first thread has ended. */
    if ((state == 'Z' && alone) || state == 'X')
        return 0;
    while (p && p[1] >= '0' && p[1] <= '9')
        v = v * 10 + (uint64_t)(*++p - '0');
    return v;
}

bool pb_home_answers(const char *path)
{
    char control[2 * PB_HOME_MAX];

    snprintf(control, sizeof control, "%.160s/" PB_HOME_SOCKET, path);
    return pb_home_listens(control);
}

bool pb_home_listens(const char *socket_path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    bool yes = true;
    int fd;

    if (strlen(socket_path) >= sizeof at.sun_path)
        return true;
    strcpy(at.sun_path, socket_path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return true;
    if (connect(fd, (struct sockaddr *)&at, sizeof at) < 0)
        yes = errno != ECONNREFUSED && errno != ENOENT;
    close(fd);
    return yes;
}

