#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "host/text/buf.h"
#include "node/access/token.h"
#include "node/access/token_files.h"

#define FILE_MAX (256 << 10)

static const char *const rights[] = {
    [PB_RIGHT_READ] = "read", [PB_RIGHT_LOOK] = "look", [PB_RIGHT_CONTROL] = "control"};

const char *pb_right_name(enum pb_right right)
{
    return rights[right];
}

/* "name hash right reach created expires"; reach is "-" for all. */
static bool parse_line(const char *line, struct pb_token *t)
{
    char right[12], reach[PB_PROCESS_ID_MAX];
    long long created, expires;

    *t = (struct pb_token){0};
    if (sscanf(line, "%39s %64s %11s %47s %lld %lld", t->name, t->hash, right, reach, &created,
               &expires) != 6 ||
        strlen(t->hash) != PB_SHA256_TEXT - 1)
        return false;
    for (int i = 0; i <= PB_RIGHT_CONTROL; i++)
        if (strcmp(right, rights[i]) == 0) {
            t->right = (enum pb_right)i;
            if (strcmp(reach, "-") != 0)
                strcpy(t->reach, reach);
            t->created_s = created;
            t->expires_s = expires;
            return true;
        }
    return false;
}

static int parse_lines(struct pb_tokens *ret, char *text, const char *path, struct pb_arena *a,
                       struct pb_err *err)
{
    char *line;

    ret->v = PB_NEW_N(a, struct pb_token, PB_TOKENS_MAX + 1);
    while ((line = strsep(&text, "\n")))
        if (*line && (ret->n == PB_TOKENS_MAX || !parse_line(line, &ret->v[ret->n++])))
            return pb_err_set(err, PB_FAIL, "%s: line %zu makes no sense", path, ret->n);
    return 0;
}

static int read_lines(const char *path, char *buf, struct pb_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc;
    size_t len = 0;
    ssize_t n = 0;

    buf[0] = '\0';
    if (fd < 0)
        return errno == ENOENT ? 0 : pb_err_set(err, PB_DENIED, "%s: %s", path, strerror(errno));
    rc = pb_token_check_file(fd, path, err);
    while (rc == 0 && len < FILE_MAX && (n = read(fd, buf + len, FILE_MAX - len)) > 0)
        len += (size_t)n;
    close(fd);
    if (rc == 0 && (n < 0 || len == FILE_MAX))
        rc = pb_err_set(err, PB_FAIL, "%s: %s", path, n < 0 ? strerror(errno) : "too long");
    buf[rc == 0 ? len : 0] = '\0';
    return rc;
}

int pb_tokens_read(struct pb_tokens *ret, struct pb_arena *a, struct pb_err *err)
{
    char dir[PB_TOKEN_PATH_MAX], path[PB_TOKEN_PATH_MAX + 16];
    char *text = malloc(FILE_MAX + 1);
    int rc;

    *ret = (struct pb_tokens){0};
    if (!text)
        return pb_err_set(err, PB_FAIL, "tokens: no memory");
    rc = pb_token_dir(dir, sizeof dir, err);
    if (rc == 0) {
        snprintf(path, sizeof path, "%s/tokens", dir);
        rc = read_lines(path, text, err);
    }
    if (rc == 0)
        rc = parse_lines(ret, text, path, a, err);
    free(text);
    return rc;
}

static int write_lines(const char *dir, const struct pb_tokens *t, struct pb_err *err)
{
    char path[PB_TOKEN_PATH_MAX + 16];
    struct pb_buf b = PB_BUF_INIT;
    int rc;

    for (size_t i = 0; i < t->n; i++)
        pb_buf_printf(&b, "%s %s %s %s %lld %lld\n", t->v[i].name, t->v[i].hash,
                      rights[t->v[i].right], t->v[i].reach[0] ? t->v[i].reach : "-",
                      (long long)t->v[i].created_s, (long long)t->v[i].expires_s);
    snprintf(path, sizeof path, "%s/tokens", dir);
    rc = pb_token_write_file(path, b.data ? b.data : "", b.len, true, err);
    pb_buf_finish(&b);
    return rc;
}

int pb_tokens_change(int (*change)(struct pb_tokens *t, void *arg, struct pb_err *err), void *arg,
                     struct pb_err *err)
{
    char dir[PB_TOKEN_PATH_MAX];
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_tokens t;
    int lock, rc;

    if (pb_token_dir(dir, sizeof dir, err) < 0 || pb_token_make_dirs(dir, err) < 0)
        return -1;
    lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0 || flock(lock, LOCK_EX) < 0) {
        rc = pb_err_set(err, PB_FAIL, "%s: %s", dir, strerror(errno));
    } else {
        rc = pb_tokens_read(&t, &a, err);
        if (rc == 0)
            rc = change(&t, arg, err);
        if (rc == 0)
            rc = write_lines(dir, &t, err);
    }
    if (lock >= 0)
        close(lock);
    pb_arena_finish(&a);
    return rc;
}

struct pb_token *pb_tokens_find(const struct pb_tokens *t, const char *name)
{
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->v[i].name, name) == 0)
            return &t->v[i];
    return NULL;
}

uint64_t pb_tokens_stamp(void)
{
    static const char *const names[] = {"token", "tokens"};
    char dir[PB_TOKEN_PATH_MAX], path[PB_TOKEN_PATH_MAX + 16];
    uint64_t stamp = PB_HASH_SEED;
    struct stat st;

    if (pb_token_dir(dir, sizeof dir, NULL) < 0)
        return 0;
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        if (stat(path, &st) < 0)
            memset(&st, 0, sizeof st);
        stamp = pb_hash_step(pb_hash_step(stamp, (uint64_t)st.st_ino), (uint64_t)st.st_mode);
        stamp = pb_hash_step(stamp, (uint64_t)st.st_ctim.tv_sec);
        stamp = pb_hash_step(stamp, (uint64_t)st.st_ctim.tv_nsec);
    }
    return stamp;
}
