#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/os/own_path.h"
#include "node/access/token.h"
#include "node/access/token_files.h"

enum { RANDOM_BYTES = 32, TOKEN_MIN = 8, TOKEN_MAX = PB_TOKEN_MAX - 1 };

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

int pb_token_dir(char *buf, size_t cap, struct pb_err *err)
{
    const char *base = getenv("XDG_CONFIG_HOME"), *between = "";
    char home[PB_TOKEN_PATH_MAX];

    if (!base || *base != '/' || !pb_own_path(base)) {
        base = pb_own_home(home, sizeof home);
        between = "/.config";
    }
    if (!base || snprintf(buf, cap, "%s%s/probing", base, between) >= (int)cap - 32)
        return pb_err_set(err, PB_FAIL, "token: no home folder; set PROBING_TOKEN");
    return 0;
}

int pb_token_check_file(int fd, const char *path, struct pb_err *err)
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
    rc = pb_token_check_file(fd, path, err);
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

int pb_token_make_dirs(char *dir, struct pb_err *err)
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

int pb_token_make(char ret[PB_TOKEN_MAX], struct pb_err *err)
{
    unsigned char bytes[RANDOM_BYTES];

    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return pb_err_set(err, PB_FAIL, "token: no random numbers: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

int pb_token_write_file(const char *path, const char *text, size_t len, bool replace,
                        struct pb_err *err)
{
    char beside[PB_TOKEN_PATH_MAX + 32];
    int fd, rc = 0;

    snprintf(beside, sizeof beside, "%s.%d.new", path, (int)getpid());
    unlink(beside);
    fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || write(fd, text, len) != (ssize_t)len || fsync(fd) < 0 ||
        (replace ? rename(beside, path) : link(beside, path) < 0 && errno != EEXIST ? -1 : 0) < 0)
        rc = pb_err_set(err, PB_FAIL, "%s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    unlink(beside);
    return rc;
}

/* Two that make it at once end with the same file: the first link stays. */
static int make_file(const char *path, bool replace, struct pb_err *err)
{
    char text[PB_TOKEN_MAX];

    if (pb_token_make(text, err) < 0)
        return -1;
    strcat(text, "\n");
    return pb_token_write_file(path, text, strlen(text), replace, err);
}

void pb_token_path(char buf[PB_TOKEN_PATH_MAX])
{
    if (pb_token_dir(buf, PB_TOKEN_PATH_MAX - 16, NULL) < 0)
        buf[0] = '\0';
    else
        strcat(buf, "/token");
}

int pb_token_own(char *buf, size_t cap, bool make, struct pb_err *err)
{
    char dir[PB_TOKEN_PATH_MAX], path[PB_TOKEN_PATH_MAX + 16];
    struct pb_err why = {0};

    if (pb_token_dir(dir, sizeof dir, err) < 0)
        return -1;
    snprintf(path, sizeof path, "%s/token", dir);
    if (read_file(path, buf, cap, &why) == 0)
        return 0;
    if (why.code != PB_NO_TARGET || !make)
        return pb_err_set(err, why.code, "%s", why.msg);
    if (pb_token_make_dirs(dir, err) < 0 || make_file(path, false, err) < 0)
        return -1;
    return read_file(path, buf, cap, err);
}

int pb_token_rotate_own(char ret[PB_TOKEN_MAX], struct pb_err *err)
{
    char dir[PB_TOKEN_PATH_MAX], path[PB_TOKEN_PATH_MAX + 16];

    if (pb_token_dir(dir, sizeof dir, err) < 0 || pb_token_make_dirs(dir, err) < 0)
        return -1;
    snprintf(path, sizeof path, "%s/token", dir);
    if (make_file(path, true, err) < 0)
        return -1;
    return read_file(path, ret, PB_TOKEN_MAX, err);
}
