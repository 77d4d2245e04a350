#include "stack/source.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/os/regular.h"

/* Larger files are no source, or none that anybody reads. */
#define FILE_LIMIT (8u << 20)
#define LINE_LIMIT 1000

static int open_file(pid_t pid, uid_t uid, const char *path, size_t *ret_size)
{
    char name[PATH_MAX];
    struct stat st;
    int fd, n;

    n = snprintf(name, sizeof name, "/proc/%d/%s/%s", (int)pid, path[0] == '/' ? "root" : "cwd",
                 path[0] == '/' ? path + 1 : path);
    if (n < 0 || (size_t)n >= sizeof name)
        return -1;
    fd = pb_open_regular(name, pb_regular_is_readable_by, &uid, &st);
    if (fd >= 0 && st.st_size > 0 && st.st_size <= FILE_LIMIT) {
        *ret_size = (size_t)st.st_size;
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

static const char *find_line(const char *text, size_t size, int line, size_t *ret_len)
{
    const char *end = text + size, *next;

    for (; line > 1; line--) {
        next = memchr(text, '\n', (size_t)(end - text));
        if (!next)
            return NULL;
        text = next + 1;
    }
    next = memchr(text, '\n', (size_t)(end - text));
    *ret_len = (size_t)((next ? next : end) - text);
    return text;
}

static const char *copy_line(const char *text, size_t len, struct pb_arena *a,
                             int *ret_indentation)
{
    size_t skip = 0;
    char *copy;

    while (skip < len && (text[skip] == ' ' || text[skip] == '\t' || text[skip] == '\f'))
        skip++;
    while (len > skip && (text[len - 1] == ' ' || text[len - 1] == '\r' || text[len - 1] == '\t'))
        len--;
    if (len == skip || len - skip > LINE_LIMIT || memchr(text, 0, len))
        return NULL;
    copy = pb_arena_alloc(a, len - skip + 1);
    memcpy(copy, text + skip, len - skip);
    copy[len - skip] = '\0';
    *ret_indentation = (int)skip;
    return copy;
}

const char *pb_source_line(pid_t pid, uid_t uid, const char *path, int line, struct pb_arena *a,
                           int *ret_indentation)
{
    const char *found, *copy = NULL;
    size_t size = 0, len;
    int fd;
    char *text;

    /* "<string>", "<frozen importlib>": not from a file. */
    if (line <= 0 || path[0] == '<' || (fd = open_file(pid, uid, path, &size)) < 0)
        return NULL;
    text = malloc(size);
    if (text && read(fd, text, size) == (ssize_t)size &&
        (found = find_line(text, size, line, &len)))
        copy = copy_line(found, len, a, ret_indentation);
    free(text);
    close(fd);
    return copy;
}

char *pb_source_text(pid_t pid, uid_t uid, const char *path, struct pb_arena *a)
{
    size_t size = 0;
    char *text = NULL;
    int fd = path[0] == '<' ? -1 : open_file(pid, uid, path, &size);

    if (fd < 0)
        return NULL;
    text = pb_arena_alloc(a, size + 1);
    if (read(fd, text, size) != (ssize_t)size)
        text = NULL;
    close(fd);
    return text;
}
