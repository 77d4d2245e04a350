#include "host/os/own_path.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The longest part of the path that is there, without links. */
static bool resolve(const char *path, char real[PATH_MAX])
{
    char part[PATH_MAX];
    char *end;

    if (*path != '/' || snprintf(part, sizeof part, "%s", path) >= (int)sizeof part)
        return false;
    while (!realpath(part, real)) {
        end = strrchr(part, '/');
        if (!end)
            return false;
        end[end == part] = '\0';
        if (end == part && !realpath("/", real))
            return false;
        if (end == part)
            break;
    }
    return true;
}

/* A folder that others may write to is one only where they cannot take names away. */
static bool is_own(const struct stat *st)
{
    return st->st_uid == 0 &&
           (!S_ISDIR(st->st_mode) || !(st->st_mode & S_IWOTH) || (st->st_mode & S_ISVTX));
}

/* Of each part that is there: also of links, which somebody may let lead elsewhere tomorrow. */
static bool are_own(char *path)
{
    struct stat st;
    bool own = stat("/", &st) == 0 && is_own(&st);

    for (char *p = path + 1; own && *p;) {
        char cut;

        p += strcspn(p, "/");
        cut = *p;
        *p = '\0';
        if (lstat(path, &st) < 0)
            return errno == ENOENT;
        own = is_own(&st);
        *p = cut;
        p += cut == '/';
    }
    return own;
}

bool pb_own_path(const char *path)
{
    char real[PATH_MAX], plain[PATH_MAX];

    if (geteuid() != 0)
        return true;
    return resolve(path, real) && are_own(real) &&
           snprintf(plain, sizeof plain, "%s", path) < (int)sizeof plain && are_own(plain);
}

const char *pb_own_home(char *buf, size_t cap)
{
    const char *home = getenv("HOME");
    const struct passwd *user;

    if (!home || *home != '/' || !pb_own_path(home)) {
        user = getpwuid(geteuid());
        home = user ? user->pw_dir : NULL;
    }
    return home && *home == '/' && snprintf(buf, cap, "%s", home) < (int)cap ? buf : NULL;
}

void pb_own_host(char buf[PB_OWN_HOST_MAX])
{
    memset(buf, 0, PB_OWN_HOST_MAX);
    gethostname(buf, PB_OWN_HOST_MAX - 1);
    for (char *p = buf; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '-' && *p != '_' && *p != '.')
            *p = '_';
}
