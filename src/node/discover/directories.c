#include "node/discover/directories.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/home.h"
#include "host/text/alloc.h"
#include "host/process/proc.h"
#include "node/discover/internal.h"
#include "node/discover/mount_view.h"

#define STORE_DIRS_MAX 1024
#define FOLDERS_MAX 65536
/*
 * Of what another user has: who makes folders and worlds without end takes nobody else's place and
 * nobody's time.
 */
#define FOREIGN_DIRS_MAX 8
#define FOREIGN_FOLDERS_MAX 1024
#define FOREIGN_VIEWS_MAX 64
#define USERS_EVERY_NS 250000000ull
#define ELSEWHERE_EVERY_NS 2000000000ull
/* How long rings stay readable whose container is gone: until they are in the archive. */
#define AFTERLIFE_NS 300000000000ll

struct user_dir {
    char path[160];
    uid_t owner;
    bool copied;
    bool elsewhere; /* below /proc/PID/root */
    bool seen;
    struct pb_folder_stamp stamp;
    char (*names)[NAME_MAX + 1];
    size_t nnames;
};

struct pb_store_dirs {
    char *store_dir;
    bool store_is_process; /* it is the folder of one process */
    struct user_dir **v;
    size_t n;
    bool changed;
    uint64_t elsewhere_ns; /* when other mount namespaces were last looked at */
    uint64_t users_ns;     /* when folders of users were last looked for */
    struct pb_folder_stamp roots[4]; /* when the roots were last listed */
};

static void user_dir_free(struct user_dir *p)
{
    free(p->names);
    free(p);
}

static struct user_dir *add_user_dir(struct pb_store_dirs *p, const char *path, uid_t owner)
{
    struct user_dir *new;
    size_t theirs = 0;

    for (size_t i = 0; i < p->n; i++) {
        if (strcmp(p->v[i]->path, path) == 0) {
            p->v[i]->seen = true;
            return p->v[i];
        }
        theirs += p->v[i]->owner == owner && !p->v[i]->elsewhere;
    }
    if (p->n >= STORE_DIRS_MAX || strlen(path) >= sizeof new->path ||
        (owner != geteuid() && theirs >= FOREIGN_DIRS_MAX))
        return NULL;
    new = pb_alloc_resize(NULL, sizeof *new);
    memset(new, 0, sizeof *new);
    snprintf(new->path, sizeof new->path, "%s", path);
    new->owner = owner;
    new->seen = true;
    p->v = pb_alloc_resize(p->v, (p->n + 1) * sizeof(void *));
    p->v[p->n++] = new;
    return new;
}

static bool is_own_file(int fd, const char *name, void *arg)
{
    bool *found = arg;

    (void)fd;
    *found = pb_home_is_ring(name) || strcmp(name, PB_HOME_META) == 0;
    return !*found;
}

/* Is it the folder of a process, whatever it is called? By what is in it. */
static bool is_of_process(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool yes = false;

    if (fd >= 0) {
        pb_home_list(fd, is_own_file, &yes);
        close(fd);
    }
    return yes;
}

static int open_store_dir(struct pb_store_dirs *p, struct pb_err *err)
{
    struct user_dir *user_dir;
    uint64_t start;
    struct stat st;
    pid_t pid;

    if (stat(p->store_dir, &st) < 0 || !S_ISDIR(st.st_mode))
        return pb_err_set(err, PB_NO_TARGET, "--store %s: %s", p->store_dir,
                          errno == ENOENT ? "no such folder" : "not a folder");
    p->store_is_process = is_of_process(p->store_dir);
    if (p->store_is_process && !pb_folder_identify(p->store_dir, &pid, &start))
        return pb_err_set(err, PB_FAIL, "--store %s: neither its name nor a file \"meta\" in it "
                                        "says which process it was", p->store_dir);
    if (p->store_is_process && strlen(p->store_dir) < PB_FOLDER_PATH_MAX)
        return 0;
    user_dir = p->store_is_process ? NULL : add_user_dir(p, p->store_dir, st.st_uid);
    if (!user_dir)
        return pb_err_set(err, PB_FAIL, "--store %s: the path is too long", p->store_dir);
    user_dir->copied = true;
    return 0;
}

int pb_store_dirs_create(struct pb_store_dirs **ret, const char *store_dir, struct pb_err *err)
{
    struct pb_store_dirs *p = pb_alloc_resize(NULL, sizeof *p);

    memset(p, 0, sizeof *p);
    p->changed = true;
    if (store_dir) {
        p->store_dir = realpath(store_dir, NULL);
        if (!p->store_dir) {
            pb_err_set(err, PB_NO_TARGET, "--store %s: %s", store_dir, strerror(errno));
            pb_store_dirs_destroy(p);
            return -1;
        }
        if (open_store_dir(p, err) < 0) {
            pb_store_dirs_destroy(p);
            return -1;
        }
    }
    *ret = p;
    return 0;
}

void pb_store_dirs_destroy(struct pb_store_dirs *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->n; i++)
        user_dir_free(p->v[i]);
    free(p->v);
    free(p->store_dir);
    free(p);
}

/* Is a name in a root such a folder of its user? Others may take the name, and with it room. */
static bool is_dir_of(int root, const char *name, uid_t uid)
{
    struct stat st;

    return fstatat(root, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
           st.st_uid == uid;
}

/* The users' folders below a root: of all for those who may see them, else our own. */
static void list_users(struct pb_store_dirs *p, const char *root, bool all)
{
    DIR *dir = opendir(root);
    struct dirent *e;

    while (dir && (e = readdir(dir))) {
        char path[160], *end;
        unsigned long uid;

        if (strncmp(e->d_name, "probing-", 8) != 0 || e->d_name[8] < '0' || e->d_name[8] > '9')
            continue;
        uid = strtoul(e->d_name + 8, &end, 10);
        if ((*end && *end != '-') || (!all && uid != geteuid()) ||
            !is_dir_of(dirfd(dir), e->d_name, (uid_t)uid) ||
            snprintf(path, sizeof path, "%s/%.40s", root, e->d_name) >= (int)sizeof path)
            continue;
        add_user_dir(p, path, (uid_t)uid);
    }
    if (dir)
        closedir(dir);
}

/* Our own, and now and then whoever has come: the roots are full of others' files. */
static void find_own_dirs(struct pb_store_dirs *p, bool everywhere)
{
    bool others = everywhere || pb_clock_ns() - p->users_ns > USERS_EVERY_NS;
    char path[PB_HOME_MAX];
    struct stat st;

    if (others)
        p->users_ns = pb_clock_ns();
    for (size_t i = 0; pb_home_roots[i]; i++) {
        pb_home_user_path(path, pb_home_roots[i], geteuid());
        add_user_dir(p, path, geteuid());
        if (others && i < sizeof p->roots / sizeof *p->roots &&
            stat(pb_home_roots[i], &st) == 0 && !pb_folder_stamp_same(&p->roots[i], &st)) {
            pb_folder_stamp_set(&p->roots[i], &st);
            list_users(p, pb_home_roots[i], geteuid() == 0);
        }
    }
}

/* Is this very folder in the list already, under another path? */
static bool is_known(const struct pb_store_dirs *p, const char *path)
{
    struct stat st, other;

    if (stat(path, &st) < 0)
        return true;
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->v[i]->path, path) != 0 && stat(p->v[i]->path, &other) == 0 &&
            other.st_dev == st.st_dev && other.st_ino == st.st_ino) {
            p->v[i]->seen = true;
            return true;
        }
    return false;
}

/* The folders of a user below one root of another world. */
static void add_dirs_below(struct pb_store_dirs *p, const char *root, uid_t name, uid_t owner)
{
    char path[PB_HOME_MAX] = "";
    int fd;

    for (int i = 0; i < FOREIGN_DIRS_MAX && (fd = pb_home_next(path, root, name, owner)) >= 0;
         i++) {
        struct user_dir *user_dir = is_known(p, path) ? NULL : add_user_dir(p, path, owner);

        close(fd);
        if (user_dir)
            user_dir->elsewhere = true;
    }
}

/* The folders in the world of one process: its user's. */
static void add_dirs_of_process(struct pb_store_dirs *p, pid_t pid)
{
    struct pb_proc_status status;
    char root[PB_HOME_MAX];
    uid_t inner;

    if (pb_proc_status(&status, pid, NULL) < 0 ||
        (geteuid() != 0 && status.euid != geteuid()))
        return;
    inner = pb_proc_inner_uid(pid, status.euid);
    for (size_t i = 0; pb_home_roots[i]; i++) {
        snprintf(root, sizeof root, "/proc/%d/root%s", (int)pid, pb_home_roots[i]);
        add_dirs_below(p, root, status.euid, status.euid);
        if (inner != status.euid)
            add_dirs_below(p, root, inner, status.euid);
    }
}

/* One process of each world and user is enough: worlds[0] is our own. */
static bool is_new(struct pb_mount_view *views, size_t *n, const struct pb_mount_view *w)
{
    size_t theirs = 0;

    for (size_t i = 0; i < *n; i++) {
        if (pb_mount_view_same(&views[i], w) && (i == 0 || views[i].uid == w->uid))
            return false;
        theirs += views[i].uid == w->uid;
    }
    if (*n == STORE_DIRS_MAX || (w->uid != geteuid() && theirs >= FOREIGN_VIEWS_MAX))
        return false;
    views[(*n)++] = *w;
    return true;
}

static void find_foreign_dirs(struct pb_store_dirs *p)
{
    struct pb_mount_view *views = pb_alloc_resize(NULL, STORE_DIRS_MAX * sizeof *views), w;
    DIR *dir = opendir("/proc");
    struct dirent *e;
    size_t n = 0;

    if (pb_mount_view_read("self", &w))
        is_new(views, &n, &w);
    while (dir && n && (e = readdir(dir)))
        if (e->d_name[0] >= '0' && e->d_name[0] <= '9' && pb_mount_view_read(e->d_name, &w) &&
            is_new(views, &n, &w))
            add_dirs_of_process(p, (pid_t)atoi(e->d_name));
    if (dir)
        closedir(dir);
    free(views);
    p->elsewhere_ns = pb_clock_ns();
}

/* What decides which folders stay where there are too many. */
struct rank {
    bool lives; /* there is a process of that number; of a container's it may be another one */
    uint64_t start;
    size_t at;
};

static int living_and_young_first(const void *x, const void *y)
{
    const struct rank *a = x, *b = y;

    return a->lives != b->lives   ? (a->lives ? -1 : 1)
           : a->start != b->start ? (a->start > b->start ? -1 : 1)
           : a->at < b->at        ? -1
                                  : 1;
}

static void keep_some(struct user_dir *p)
{
    struct rank *ranks = pb_alloc_resize(NULL, p->nnames * sizeof *ranks);
    char(*names)[NAME_MAX + 1] = pb_alloc_resize(NULL, FOREIGN_FOLDERS_MAX * sizeof *names);

    for (size_t i = 0; i < p->nnames; i++) {
        pid_t pid = 0;

        ranks[i] = (struct rank){.at = i};
        pb_process_id_parse(p->names[i], &pid, &ranks[i].start);
        ranks[i].lives = kill(pid, 0) == 0 || errno != ESRCH;
    }
    qsort(ranks, p->nnames, sizeof *ranks, living_and_young_first);
    for (size_t i = 0; i < FOREIGN_FOLDERS_MAX; i++)
        memcpy(names[i], p->names[ranks[i].at], sizeof *names);
    free(ranks);
    free(p->names);
    p->names = names;
    p->nnames = FOREIGN_FOLDERS_MAX;
}

static void list_user_dir(struct user_dir *p, int fd)
{
    DIR *dir = fdopendir(dup(fd));
    struct dirent *e;
    uint64_t start;
    pid_t pid;

    p->nnames = 0;
    while (dir && p->nnames < FOLDERS_MAX && (e = readdir(dir))) {
        size_t len = strlen(e->d_name);

        /* What was copied may have got another name, and says itself who it is. */
        if (len > NAME_MAX || e->d_name[0] == '.' ||
            (!p->copied && !pb_process_id_parse(e->d_name, &pid, &start)))
            continue;
        if (p->nnames % 64 == 0)
            p->names = pb_alloc_resize(p->names, (p->nnames + 64) * sizeof *p->names);
        memcpy(p->names[p->nnames++], e->d_name, len + 1);
    }
    if (dir)
        closedir(dir);
    if (p->owner != geteuid() && !p->copied && p->nnames > FOREIGN_FOLDERS_MAX)
        keep_some(p);
}

/* Lists a place again if it changed; a place that is not there holds nothing. */
static bool refresh_user_dir(struct user_dir *p)
{
    struct stat st;
    int fd;

    if (stat(p->path, &st) == 0 && pb_folder_stamp_same(&p->stamp, &st))
        return false;
    fd = open(p->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || (!p->copied && pb_home_check(fd, p->owner) < 0) || fstat(fd, &st) < 0) {
        bool had = p->nnames > 0;

        if (fd >= 0)
            close(fd);
        p->nnames = 0;
        p->stamp.settled = false;
        return had;
    }
    pb_folder_stamp_set(&p->stamp, &st);
    list_user_dir(p, fd);
    close(fd);
    return true;
}

/* Worlds whose last process ended, and folders that went away with everything in them. */
static bool drop_unseen(struct pb_store_dirs *p)
{
    size_t kept = 0;
    bool dropped = false;

    for (size_t i = 0; i < p->n; i++) {
        if (p->v[i]->seen) {
            p->v[kept++] = p->v[i];
        } else {
            user_dir_free(p->v[i]);
            dropped = true;
        }
    }
    p->n = kept;
    return dropped;
}

bool pb_store_dirs_refresh(struct pb_store_dirs *p, bool everywhere)
{
    bool changed = p->changed;

    p->changed = false;
    if (!p->store_dir) {
        find_own_dirs(p, everywhere);
        if (everywhere || pb_clock_ns() - p->elsewhere_ns > ELSEWHERE_EVERY_NS) {
            for (size_t i = 0; i < p->n; i++)
                p->v[i]->seen = !p->v[i]->elsewhere;
            find_foreign_dirs(p);
            changed = drop_unseen(p) || changed;
        }
    }
    for (size_t i = 0; i < p->n; i++)
        changed = refresh_user_dir(p->v[i]) || changed;
    return changed;
}

void pb_store_dirs_each(struct pb_store_dirs *p, pb_store_dir_fn *each, void *arg)
{
    char path[PB_FOLDER_PATH_MAX];

    if (p->store_is_process)
        each(p->store_dir, geteuid(), true, arg);
    for (size_t i = 0; i < p->n; i++) {
        const struct user_dir *user_dir = p->v[i];

        for (size_t k = 0; k < user_dir->nnames; k++)
            if ((size_t)snprintf(path, sizeof path, "%s/%s", user_dir->path, user_dir->names[k]) <
                sizeof path)
                each(path, user_dir->owner, user_dir->copied, arg);
    }
}

bool pb_store_dirs_keeps(const struct pb_store_dirs *p, const struct pb_folder *f)
{
    (void)p;
    return f->store && f->store->nrings && strncmp(f->path, "/proc/", 6) == 0 &&
           (f->process.live || pb_clock_wall_ns() - f->process.until_ns < AFTERLIFE_NS);
}
