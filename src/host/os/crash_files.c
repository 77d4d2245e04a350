#include "host/os/crash_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "host/text/buf.h"

#define FOLDER "crashes"
#define ENDING ".json"
#define FILE_MAX (64u << 20)
#define SAME_SECOND_MAX 100

void pb_crash_id(char buf[PB_CRASH_ID_MAX], int64_t wall_ns, pid_t pid)
{
    time_t seconds = (time_t)(wall_ns / 1000000000);
    struct tm tm;
    size_t n;

    gmtime_r(&seconds, &tm);
    n = strftime(buf, PB_CRASH_ID_MAX, "%Y%m%d-%H%M%S", &tm);
    snprintf(buf + n, PB_CRASH_ID_MAX - n, "-%d", (int)pid);
}

static int open_folder(const char *data_dir, bool make)
{
    struct pb_buf path = PB_BUF_INIT;
    int fd;

    pb_buf_printf(&path, "%s/" FOLDER, data_dir);
    for (char *p = path.data + 1; make && (p = strchr(p, '/')); p++) {
        *p = '\0';
        mkdir(path.data, 0700);
        *p = '/';
    }
    if (make)
        mkdir(path.data, 0700);
    fd = open(path.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    pb_buf_finish(&path);
    return fd;
}

static bool is_id(const char *name, size_t len)
{
    if (len < 17 || len >= PB_CRASH_ID_MAX)
        return false;
    for (size_t i = 0; i < len; i++)
        if ((name[i] < '0' || name[i] > '9') && name[i] != '-')
            return false;
    return true;
}

struct names {
    const char **v;
    size_t n, cap;
};

static int compare_newest_first(const void *x, const void *y)
{
    return strcmp(*(const char *const *)y, *(const char *const *)x);
}

static int list_names(int folder, struct pb_arena *a, struct names *ret)
{
    int copy = dup(folder);
    DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
    struct dirent *e;

    *ret = (struct names){0};
    if (!d) {
        if (copy >= 0)
            close(copy);
        return -1;
    }
    rewinddir(d);
    while ((e = readdir(d))) {
        size_t len = strlen(e->d_name), end = sizeof ENDING - 1;

        if (len <= end || strcmp(e->d_name + len - end, ENDING) != 0 ||
            !is_id(e->d_name, len - end))
            continue;
        if (ret->n == ret->cap) {
            size_t more = ret->cap ? ret->cap * 2 : 64;

            ret->v = pb_arena_grow(a, ret->v, ret->cap * sizeof *ret->v, more * sizeof *ret->v);
            ret->cap = more;
        }
        ret->v[ret->n++] = pb_arena_strndup(a, e->d_name, len - end);
    }
    closedir(d);
    if (ret->n)
        qsort(ret->v, ret->n, sizeof *ret->v, compare_newest_first);
    return 0;
}

static void remove_old(int folder, int64_t days)
{
    struct pb_arena a = PB_ARENA_INIT;
    char oldest[PB_CRASH_ID_MAX];
    struct names names;

    pb_crash_id(oldest, ((int64_t)time(NULL) - days * 86400) * 1000000000, 0);
    if (list_names(folder, &a, &names) == 0)
        for (size_t i = 0; i < names.n; i++)
            if (i >= PB_CRASH_FILES_MAX || strcmp(names.v[i], oldest) < 0)
                unlinkat(folder, pb_arena_printf(&a, "%s" ENDING, names.v[i]), 0);
    pb_arena_finish(&a);
}

static bool write_all(int fd, const char *text, size_t len)
{
    while (len) {
        ssize_t n = write(fd, text, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        text += n;
        len -= (size_t)n;
    }
    return true;
}

/* The first free name wins: a link fails where there is a file. */
static int publish(int folder, const char *unfinished, char id[PB_CRASH_ID_MAX])
{
    char name[PB_CRASH_ID_MAX + 8], stem[PB_CRASH_ID_MAX];

    memcpy(stem, id, sizeof stem);
    for (unsigned i = 2; i < SAME_SECOND_MAX; i++) {
        snprintf(name, sizeof name, "%s" ENDING, id);
        if (linkat(folder, unfinished, folder, name, 0) == 0)
            return 0;
        if (errno != EEXIST)
            return -1;
        snprintf(id, PB_CRASH_ID_MAX, "%.36s-%u", stem, i);
    }
    return -1;
}

/* replace: the id is one that is there. */
static int write_file(const char *data_dir, char id[PB_CRASH_ID_MAX], bool replace,
                      const char *text, size_t len, struct pb_err *err)
{
    int folder = open_folder(data_dir, true), fd = -1, rc = -1;
    char unfinished[32], name[PB_CRASH_ID_MAX + 8];

    snprintf(unfinished, sizeof unfinished, ".new-%d", (int)getpid());
    snprintf(name, sizeof name, "%s" ENDING, id);
    if (folder >= 0)
        fd = openat(folder, unfinished, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                    0600);
    if (fd >= 0 && write_all(fd, text, len))
        rc = replace ? renameat(folder, unfinished, folder, name)
                     : publish(folder, unfinished, id);
    if (rc < 0)
        pb_err_set(err, PB_FAIL, "%s/" FOLDER ": %s", data_dir, strerror(errno));
    if (fd >= 0) {
        close(fd);
        unlinkat(folder, unfinished, 0);
    }
    if (folder >= 0)
        close(folder);
    return rc;
}

int pb_crash_files_write(const char *data_dir, char id[PB_CRASH_ID_MAX], const char *text,
                         size_t len, struct pb_err *err)
{
    return write_file(data_dir, id, false, text, len, err);
}

int pb_crash_files_replace(const char *data_dir, const char *id, const char *text, size_t len,
                           struct pb_err *err)
{
    char copy[PB_CRASH_ID_MAX];

    snprintf(copy, sizeof copy, "%s", id);
    return write_file(data_dir, copy, true, text, len, err);
}

void pb_crash_files_tidy(const char *data_dir, int64_t days)
{
    int folder = open_folder(data_dir, false);

    if (folder < 0)
        return;
    remove_old(folder, days);
    close(folder);
}

/* The whole file, or NULL. */
static char *read_file(int folder, const char *id, struct pb_arena *a, size_t *ret_len)
{
    int fd = openat(folder, pb_arena_printf(a, "%s" ENDING, id),
                    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    char *text = NULL;
    size_t done = 0;

    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size < (off_t)FILE_MAX) {
        text = pb_arena_alloc(a, (size_t)st.st_size + 1);
        while (done < (size_t)st.st_size) {
            ssize_t n = read(fd, text + done, (size_t)st.st_size - done);

            if (n <= 0)
                break;
            done += (size_t)n;
        }
    }
    if (fd >= 0)
        close(fd);
    *ret_len = done;
    return text;
}

static bool read_head(int folder, const char *id, struct pb_arena *a, struct pb_crash_file *ret)
{
    struct pb_arena scratch = PB_ARENA_INIT;
    struct pb_json *head = PB_NEW(a, struct pb_json);
    size_t len;
    char *text = read_file(folder, id, &scratch, &len), *end;
    bool good = false;

    if (text) {
        end = memchr(text, '\n', len);
        len = end ? (size_t)(end - text) : len;
        good = pb_json_parse(a, text, len, head, NULL) == 0 && head->type == PB_J_OBJECT;
    }
    if (good)
        *ret = (struct pb_crash_file){id, pb_arena_strndup(a, text, len), head};
    pb_arena_finish(&scratch);
    return good;
}

int pb_crash_files_list(const char *data_dir, struct pb_arena *a, struct pb_crash_file **ret,
                        size_t *ret_n, struct pb_err *err)
{
    int folder = open_folder(data_dir, false);
    struct names names = {0};

    *ret = NULL;
    *ret_n = 0;
    if (folder < 0)
        return errno == ENOENT ? 0
                               : pb_err_set(err, PB_FAIL, "%s/" FOLDER ": %s", data_dir,
                                            strerror(errno));
    if (list_names(folder, a, &names) == 0)
        *ret = PB_NEW_N(a, struct pb_crash_file, names.n + 1);
    for (size_t i = 0; i < names.n && i < PB_CRASH_FILES_MAX; i++)
        *ret_n += read_head(folder, names.v[i], a, &(*ret)[*ret_n]);
    close(folder);
    return 0;
}

const char *pb_crash_files_stacks(const char *data_dir, const char *id, struct pb_arena *a,
                                  size_t *ret_len)
{
    int folder = is_id(id, strlen(id)) ? open_folder(data_dir, false) : -1;
    char *text = NULL, *line;
    size_t len = 0;

    *ret_len = 0;
    if (folder < 0)
        return NULL;
    text = read_file(folder, id, a, &len);
    close(folder);
    line = text ? memchr(text, '\n', len) : NULL;
    if (!line || line + 1 >= text + len)
        return NULL;
    *ret_len = (size_t)(text + len - line - 1);
    return line + 1;
}
