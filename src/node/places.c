#include "node/places.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/home.h"
#include "host/alloc.h"
#include "host/proc.h"
#include "node/discover_internal.h"

#define PLACES_MAX 1024
#define FOLDERS_MAX 65536
#define USERS_EVERY_NS 250000000ull
#define ELSEWHERE_EVERY_NS 2000000000ull
/* How long rings stay readable whose container is gone: until they are in the archive. */
#define AFTERLIFE_NS 300000000000ll

struct place {
    char path[160];
    uid_t owner;
    bool copied;
    bool elsewhere; /* below /proc/PID/root */
    bool seen;
    struct pb_folder_stamp stamp;
    char (*names)[NAME_MAX + 1];
    size_t nnames;
};

struct pb_places {
    char *store_dir;
    bool store_is_process; /* it is the folder of one process */
    struct place **v;
    size_t n;
    bool changed;
    uint64_t elsewhere_ns; /* when other mount namespaces were last looked at */
    uint64_t users_ns;     /* when folders of users were last looked for */
    struct pb_folder_stamp roots[4]; /* when the roots were last listed */
};

static void place_free(struct place *p)
{
    free(p->names);
    free(p);
}

static struct place *add_place(struct pb_places *p, const char *path, uid_t owner)
{
    struct place *new;

    for (size_t i = 0; i < p->n; i++) {
        if (strcmp(p->v[i]->path, path) == 0) {
            p->v[i]->seen = true;
            return p->v[i];
        }
    }
    if (p->n >= PLACES_MAX || strlen(path) >= sizeof new->path)
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

static int take_store_dir(struct pb_places *p, struct pb_err *err)
{
    struct place *place;
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
    place = p->store_is_process ? NULL : add_place(p, p->store_dir, st.st_uid);
    if (!place)
        return pb_err_set(err, PB_FAIL, "--store %s: the path is too long", p->store_dir);
    place->copied = true;
    return 0;
}

int pb_places_create(struct pb_places **ret, const char *store_dir, struct pb_err *err)
{
    struct pb_places *p = pb_alloc_resize(NULL, sizeof *p);

    memset(p, 0, sizeof *p);
    p->changed = true;
    if (store_dir) {
        p->store_dir = realpath(store_dir, NULL);
        if (!p->store_dir) {
            pb_err_set(err, PB_NO_TARGET, "--store %s: %s", store_dir, strerror(errno));
            pb_places_destroy(p);
            return -1;
        }
        if (take_store_dir(p, err) < 0) {
            pb_places_destroy(p);
            return -1;
        }
    }
    *ret = p;
    return 0;
}

void pb_places_destroy(struct pb_places *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->n; i++)
        place_free(p->v[i]);
    free(p->v);
    free(p->store_dir);
    free(p);
}

/* The users' folders below a root: of all for those who may see them, else our own. */
static void list_users(struct pb_places *p, const char *root, bool all)
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
            snprintf(path, sizeof path, "%s/%.40s", root, e->d_name) >= (int)sizeof path)
            continue;
        add_place(p, path, (uid_t)uid);
    }
    if (dir)
        closedir(dir);
}

/* Our own, and now and then whoever has come: the roots are full of others' files. */
static void look_here(struct pb_places *p, bool everywhere)
{
    bool others = everywhere || pb_clock_ns() - p->users_ns > USERS_EVERY_NS;
    char path[PB_HOME_MAX];
    struct stat st;

    if (others)
        p->users_ns = pb_clock_ns();
    for (size_t i = 0; pb_home_roots[i]; i++) {
        pb_home_user_path(path, pb_home_roots[i], geteuid());
        add_place(p, path, geteuid());
        if (others && i < sizeof p->roots / sizeof *p->roots &&
            stat(pb_home_roots[i], &st) == 0 && !pb_folder_stamp_same(&p->roots[i], &st)) {
            pb_folder_stamp_set(&p->roots[i], &st);
            list_users(p, pb_home_roots[i], geteuid() == 0);
        }
    }
}

/* Root folder, mount namespace and user of a process. */
struct world {
    dev_t root_dev;
    ino_t root_ino, mounts;
    uid_t uid;
};

static bool world_of(const char *pid, struct world *ret)
{
    char path[64];
    struct stat st;

    memset(ret, 0, sizeof *ret);
    snprintf(path, sizeof path, "/proc/%.20s/ns/mnt", pid);
    if (stat(path, &st) < 0)
        return false;
    ret->mounts = st.st_ino;
    snprintf(path, sizeof path, "/proc/%.20s/root", pid);
    if (stat(path, &st) < 0)
        return false;
    ret->root_dev = st.st_dev;
    ret->root_ino = st.st_ino;
    snprintf(path, sizeof path, "/proc/%.20s", pid);
    if (stat(path, &st) < 0)
        return false;
    ret->uid = st.st_uid;
    return true;
}

/* Is this very folder in the list already, under another path? */
static bool is_known(const struct pb_places *p, const char *path)
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
static void look_root(struct pb_places *p, const char *root, uid_t name, uid_t owner)
{
    char path[PB_HOME_MAX] = "";
    int fd;

    while ((fd = pb_home_next(path, root, name, owner)) >= 0) {
        struct place *place = is_known(p, path) ? NULL : add_place(p, path, owner);

        close(fd);
        if (place)
            place->elsewhere = true;
    }
}

/* The folders in the world of one process: its user's. */
static void look_world(struct pb_places *p, pid_t pid)
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
        look_root(p, root, status.euid, status.euid);
        if (inner != status.euid)
            look_root(p, root, inner, status.euid);
    }
}

static bool same_world(const struct world *x, const struct world *y)
{
    return x->mounts == y->mounts && x->root_ino == y->root_ino && x->root_dev == y->root_dev;
}

bool pb_places_elsewhere(pid_t pid)
{
    struct world own, its;
    char text[24];

    snprintf(text, sizeof text, "%d", (int)pid);
    return world_of("self", &own) && world_of(text, &its) && !same_world(&own, &its);
}

/* One process of each world and user is enough: worlds[0] is our own. */
static bool is_new(struct world *worlds, size_t *n, const struct world *w)
{
    for (size_t i = 0; i < *n; i++)
        if (same_world(&worlds[i], w) && (i == 0 || worlds[i].uid == w->uid))
            return false;
    if (*n == PLACES_MAX)
        return false;
    worlds[(*n)++] = *w;
    return true;
}

static void look_elsewhere(struct pb_places *p)
{
    struct world *worlds = pb_alloc_resize(NULL, PLACES_MAX * sizeof *worlds), w;
    DIR *dir = opendir("/proc");
    struct dirent *e;
    size_t n = 0;

    if (world_of("self", &w))
        is_new(worlds, &n, &w);
    while (dir && n && (e = readdir(dir)))
        if (e->d_name[0] >= '0' && e->d_name[0] <= '9' && world_of(e->d_name, &w) &&
            is_new(worlds, &n, &w))
            look_world(p, (pid_t)atoi(e->d_name));
    if (dir)
        closedir(dir);
    free(worlds);
    p->elsewhere_ns = pb_clock_ns();
}

static void list_place(struct place *p, int fd)
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
}

/* Lists a place again if it changed; a place that is not there holds nothing. */
static bool look_place(struct place *p)
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
    list_place(p, fd);
    close(fd);
    return true;
}

/* Worlds whose last process ended, and folders that went away with everything in them. */
static bool drop_unseen(struct pb_places *p)
{
    size_t kept = 0;
    bool dropped = false;

    for (size_t i = 0; i < p->n; i++) {
        if (p->v[i]->seen) {
            p->v[kept++] = p->v[i];
        } else {
            place_free(p->v[i]);
            dropped = true;
        }
    }
    p->n = kept;
    return dropped;
}

bool pb_places_look(struct pb_places *p, bool everywhere)
{
    bool changed = p->changed;

    p->changed = false;
    if (!p->store_dir) {
        look_here(p, everywhere);
        if (everywhere || pb_clock_ns() - p->elsewhere_ns > ELSEWHERE_EVERY_NS) {
            for (size_t i = 0; i < p->n; i++)
                p->v[i]->seen = !p->v[i]->elsewhere;
            look_elsewhere(p);
            changed = drop_unseen(p) || changed;
        }
    }
    for (size_t i = 0; i < p->n; i++)
        changed = look_place(p->v[i]) || changed;
    return changed;
}

void pb_places_each(struct pb_places *p, pb_places_each_fn *each, void *arg)
{
    char path[PB_FOLDER_PATH_MAX];

    if (p->store_is_process)
        each(p->store_dir, geteuid(), true, arg);
    for (size_t i = 0; i < p->n; i++) {
        const struct place *place = p->v[i];

        for (size_t k = 0; k < place->nnames; k++)
            if ((size_t)snprintf(path, sizeof path, "%s/%s", place->path, place->names[k]) <
                sizeof path)
                each(path, place->owner, place->copied, arg);
    }
}

bool pb_places_keeps(const struct pb_places *p, const struct pb_folder *f)
{
    (void)p;
    return f->store && f->store->nrings && strncmp(f->path, "/proc/", 6) == 0 &&
           (f->process.live || pb_now_ns() - f->process.until_ns < AFTERLIFE_NS);
}
