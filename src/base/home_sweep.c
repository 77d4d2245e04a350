#include "base/home.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

/* An agent makes its folder first and its socket a moment later. */
#define YOUNG_S 60
/* Over the limit by more than so many folders: the next sweep goes on. */
#define ROUNDS 64

enum { NAME_MAX_LEN = 40 };

/* By number: the C library's own names are younger than the oldest one that we load into. */
static int status_at(int fd, const char *name, struct stat *st)
{
    return (int)syscall(SYS_newfstatat, fd, name, st, AT_SYMLINK_NOFOLLOW);
}

/* Parses "<pid>-<starttime>"; false for any other name. */
static bool parse_name(const char *name, uint64_t *pid, uint64_t *start)
{
    uint64_t *at = pid;
    int digits = 0;

    *pid = *start = 0;
    for (; *name; name++) {
        if (*name == '-' && at == pid && digits) {
            at = start;
            digits = 0;
        } else if (*name >= '0' && *name <= '9' && ++digits < 20) {
            *at = *at * 10 + (uint64_t)(*name - '0');
        } else {
            return false;
        }
    }
    return at == start && digits && *pid > 0 && *pid < INT32_MAX;
}

/* Is the boot that a folder's meta names another one? A folder in /tmp outlives its machine. */
static bool of_another_boot(int user, const char *name, const char *boot)
{
    char path[NAME_MAX_LEN + 16], text[512], *line;
    ssize_t n;
    int fd;

    snprintf(path, sizeof path, "%s/" PB_HOME_META, name);
    fd = openat(user, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return false;
    n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    line = strstr(text, "\nboot_id=");
    return line && *boot && strncmp(line + 9, boot, strlen(boot)) != 0;
}

struct sweep {
    const char *user_path;
    const struct pb_home_keep *keep;
    char boot[40];
    int removed;
    /* of the folders that stay */
    int64_t bytes, oldest_s;
    char oldest[NAME_MAX_LEN + 1];
};

static bool is_dead(struct sweep *s, int user, const char *name)
{
    char path[2 * PB_HOME_MAX], control[NAME_MAX_LEN + 16];
    uint64_t pid, start;
    struct stat st;

    if (strlen(name) > NAME_MAX_LEN || !parse_name(name, &pid, &start))
        return false;
    if (pb_home_start_time((pid_t)pid) == start && !of_another_boot(user, name, s->boot))
        return false;
    snprintf(path, sizeof path, "%s/%.40s", s->user_path, name);
    snprintf(control, sizeof control, "%.40s/" PB_HOME_SOCKET, name);
    if (faccessat(user, control, F_OK, 0) == 0)
        return !pb_home_answers(path);
    /* Without a socket it was looked at before, or is just being made. */
    return s->keep && status_at(user, name, &st) == 0 && time(NULL) - st.st_mtime >= YOUNG_S;
}

/* What a dead process left. */
struct remains {
    bool first_only;
    int rings;
    int64_t bytes, last_s;
};

static bool examine_file(int fd, const char *name, void *arg)
{
    struct remains *r = arg;
    struct stat st;

    r->rings += pb_home_is_ring(name);
    if (!r->first_only && status_at(fd, name, &st) == 0) {
        r->bytes += (int64_t)st.st_blocks * 512;
        if (st.st_mtime > r->last_s)
            r->last_s = st.st_mtime;
    }
    return !r->first_only || !r->rings;
}

static void examine_folder(int user, const char *name, struct remains *r)
{
    int fd = openat(user, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return;
    pb_home_list(fd, examine_file, r);
    close(fd);
}

static void erase(struct sweep *s, const char *name)
{
    char path[2 * PB_HOME_MAX];

    snprintf(path, sizeof path, "%s/%.40s", s->user_path, name);
    pb_home_erase(path);
    s->removed++;
}

/* Nodes give their socket its name when they listen already, so a silent one belongs to nobody. */
static void drop_silent_socket(struct sweep *s, int user, const char *name)
{
    char path[2 * PB_HOME_MAX];
    struct stat st;

    snprintf(path, sizeof path, "%s/%.40s", s->user_path, name);
    if (status_at(user, name, &st) == 0 && S_ISSOCK(st.st_mode) &&
        time(NULL) - st.st_mtime >= YOUNG_S && !pb_home_listens(path) &&
        unlinkat(user, name, 0) == 0)
        s->removed++;
}

static bool sweep_folder(int user, const char *name, void *arg)
{
    struct sweep *s = arg;
    struct remains r = {.first_only = !s->keep};
    char control[NAME_MAX_LEN + 16];

    if (s->keep && strncmp(name, PB_HOME_NODE, strlen(PB_HOME_NODE)) == 0 &&
        strlen(name) <= NAME_MAX_LEN)
        drop_silent_socket(s, user, name);
    if (!is_dead(s, user, name))
        return true;
    examine_folder(user, name, &r);
    if (!r.rings || (s->keep && time(NULL) - r.last_s > s->keep->seconds)) {
        erase(s, name);
        return true;
    }
    snprintf(control, sizeof control, "%.40s/" PB_HOME_SOCKET, name);
    unlinkat(user, control, 0); /* nobody listens there: the next one need not ask again */
    s->bytes += r.bytes;
    if (!s->oldest[0] || r.last_s < s->oldest_s) {
        s->oldest_s = r.last_s;
        snprintf(s->oldest, sizeof s->oldest, "%.40s", name);
    }
    return true;
}

static int64_t most_bytes(int user, const struct pb_home_keep *keep)
{
    struct statfs fs;
    int64_t quarter = INT64_MAX;

    if (fstatfs(user, &fs) == 0 && fs.f_blocks)
        quarter = (int64_t)fs.f_blocks * (int64_t)fs.f_bsize / 4;
    return keep->bytes < quarter ? keep->bytes : quarter;
}

static void sweep_user(struct sweep *s, int user)
{
    s->bytes = 0;
    s->oldest[0] = '\0';
    pb_home_list(user, sweep_folder, s);
    for (int i = 0; i < ROUNDS && s->keep && s->oldest[0] && s->bytes > most_bytes(user, s->keep);
         i++) {
        erase(s, s->oldest);
        s->bytes = 0;
        s->oldest[0] = '\0';
        pb_home_list(user, sweep_folder, s);
    }
}

int pb_home_sweep(const char *root, uid_t uid, const struct pb_home_keep *keep)
{
    char path[PB_HOME_MAX] = "";
    struct sweep s = {.user_path = path, .keep = keep};
    int user;

    pb_home_boot_id(s.boot);
    while ((user = pb_home_next(path, root, uid, uid)) >= 0) {
        sweep_user(&s, user);
        close(user);
        /* Without a time to keep it is quick: others are for those who have the time. */
        if (!keep)
            break;
    }
    return s.removed;
}
