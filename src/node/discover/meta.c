/* meta.c - the small files of lines in the folder of a process: meta and status. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/home.h"
#include "host/net/agent_socket.h"
#include "host/text/alloc.h"
#include "node/discover/internal.h"

#define TEXT_MAX (64 << 10)

char *pb_meta_read(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    char *text = pb_alloc_resize(NULL, TEXT_MAX);
    size_t len = 0;
    struct stat st;
    ssize_t n;

    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        while (len + 1 < TEXT_MAX && (n = read(fd, text + len, TEXT_MAX - 1 - len)) > 0)
            len += (size_t)n;
    if (fd >= 0)
        close(fd);
    /* What is no text ends it. */
    text[len] = '\0';
    return pb_alloc_resize(text, strlen(text) + 1);
}

int64_t pb_meta_number(const char *lines, const char *key, int64_t default_value)
{
    struct pb_arena a = PB_ARENA_INIT;
    const char *text = pb_store_value(lines, key, &a);
    int64_t v = default_value;
    char *end;

    if (text && *text) {
        v = strtoll(text, &end, 10);
        if (*end)
            v = default_value;
    }
    pb_arena_finish(&a);
    return v;
}

bool pb_meta_is(const char *lines, const char *key, const char *value)
{
    struct pb_arena a = PB_ARENA_INIT;
    const char *text = pb_store_value(lines, key, &a);
    bool same = text && strcmp(text, value) == 0;

    pb_arena_finish(&a);
    return same;
}

char *pb_store_value(const char *lines, const char *key, struct pb_arena *a)
{
    return pb_agent_value(lines, key, a);
}

bool pb_folder_identify(const char *path, pid_t *ret_pid, uint64_t *ret_start)
{
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int64_t pid, start;
    char *meta;

    if (dir < 0)
        return false;
    meta = pb_meta_read(dir, PB_HOME_META);
    close(dir);
    pid = pb_meta_number(meta, "pid", 0);
    start = pb_meta_number(meta, "start", 0);
    free(meta);
    if (pid <= 0 || pid > INT32_MAX || start <= 0)
        return pb_process_id_parse(strrchr(path, '/') + 1, ret_pid, ret_start);
    *ret_pid = (pid_t)pid;
    *ret_start = (uint64_t)start;
    return true;
}
