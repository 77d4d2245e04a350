#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/http/server.h"

enum { RANDOM_BYTES = 32, TOKEN_MIN = 8, TOKEN_MAX = 79, PATH_CAP = 512 };

int pb_token_check(const char *token, struct pb_err *err)
{
    size_t len = strlen(token);

    for (const char *p = token; *p; p++)
        if (!isgraph((unsigned char)*p))
            return pb_err_set(err, PB_USAGE, "token: a blank or a control character in it");
    if (len < TOKEN_MIN || len > TOKEN_MAX)
        return pb_err_set(err, PB_USAGE, "token: %d to %d characters, this has %zu", TOKEN_MIN,
                          TOKEN_MAX, len);
    return 0;
}

/* "<config>/probing" */
static int config_dir(char *buf, size_t cap, struct pb_err *err)
{
    const char *base = getenv("XDG_CONFIG_HOME"), *between = "";
    struct passwd *user;

    if (!base || *base != '/') {
        base = getenv("HOME");
        between = "/.config";
        if (!base || *base != '/') {
            user = getpwuid(geteuid());
            base = user ? user->pw_dir : NULL;
        }
    }
    if (!base || snprintf(buf, cap, "%s%s/probing", base, between) >= (int)cap - 32)
        return pb_err_set(err, PB_FAIL, "token: no home folder; set PROBING_TOKEN");
    return 0;
}

/* A secret that others can read is none. */
static int check_file(int fd, const char *path, struct pb_err *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return pb_err_set(err, PB_FAIL, "%s: not a file", path);
    if (st.st_uid != geteuid() && st.st_uid != 0 && geteuid() != 0)
        return pb_err_set(err, PB_DENIED, "%s: belongs to another user", path);
    if (st.st_mode & 077)
        return pb_err_set(err, PB_DENIED, "%s: others can read it: chmod 600 %s", path, path);
    return 0;
}

static int read_file(const char *path, char *buf, size_t cap, struct pb_err *err)
{
    char text[128] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc;
    ssize_t n;

    if (fd < 0)
        return pb_err_set(err, errno == ENOENT ? PB_NO_TARGET : PB_DENIED, "%s: %s", path,
                          strerror(errno));
    rc = check_file(fd, path, err);
    n = rc == 0 ? read(fd, text, sizeof text - 1) : -1;
    close(fd);
    if (rc < 0)
        return -1;
    if (n < 0)
        return pb_err_set(err, PB_FAIL, "%s: %s", path, strerror(errno));
    text[strcspn(text, "\r\n")] = '\0';
    if (pb_token_check(text, err) < 0 || strlen(text) >= cap)
        return pb_err_prefix(err, "%s", path);
    strcpy(buf, text);
    return 0;
}

static int make_dirs(char *dir, struct pb_err *err)
{
    for (char *p = strchr(dir + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';
        mkdir(dir, 0700); /* those above are mostly there; the last one tells */
        *p = '/';
    }
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return pb_err_set(err, PB_FAIL, "%s: %s", dir, strerror(errno));
    return 0;
}

/* Two that do this at once end with the same file: the first link stays. */
static int make_file(const char *path, struct pb_err *err)
{
    unsigned char bytes[RANDOM_BYTES];
    char text[2 * RANDOM_BYTES + 2], temporary[PATH_CAP + 32];
    int fd, rc = 0;

    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return pb_err_set(err, PB_FAIL, "token: no random numbers: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    strcpy(text + 2 * RANDOM_BYTES, "\n");
    snprintf(temporary, sizeof temporary, "%s.%d.%02x%02x", path, (int)getpid(), bytes[0],
             bytes[1]);
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) ||
        (link(temporary, path) < 0 && errno != EEXIST))
        rc = pb_err_set(err, PB_FAIL, "%s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    unlink(temporary);
    return rc;
}

int pb_token_read(char *buf, size_t cap, bool make, struct pb_err *err)
{
    const char *given = getenv("PROBING_TOKEN");
    char dir[PATH_CAP], path[PATH_CAP + 16];
    struct pb_err why = {0};

    if (given && *given) {
        if (pb_token_check(given, err) < 0 || strlen(given) >= cap)
            return pb_err_prefix(err, "PROBING_TOKEN");
        strcpy(buf, given);
        return 0;
    }
    if (config_dir(dir, sizeof dir, err) < 0)
        return -1;
    snprintf(path, sizeof path, "%s/token", dir);
    if (read_file(path, buf, cap, &why) == 0)
        return 0;
    if (why.code != PB_NO_TARGET || !make)
        return pb_err_set(err, why.code, "%s", why.msg);
    if (make_dirs(dir, err) < 0 || make_file(path, err) < 0)
        return -1;
    return read_file(path, buf, cap, err);
}
