/* How a process ended, as far as the kernel tells somebody who is not its parent. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/home.h"
#include "host/process/exits.h"
#include "host/process/proc.h"
#include "node/discover/internal.h"

/* Fields of /proc/PID/stat, counted from the state. */
enum { FIELD_START = 19, FIELD_CODE = 49 };

/* Of one that its parent has not asked for yet: the kernel tells its owner. */
static int code_of_zombie(const struct pb_folder *f)
{
    struct pb_arena a = PB_ARENA_INIT;
    size_t len = 0;
    char *text = pb_proc_read(f->process.pid, "stat", &a, &len);
    char *p = text ? strrchr(text, ')') : NULL;
    bool zombie = p && strncmp(p, ") Z ", 4) == 0;
    uint64_t start = 0;
    int code = -1;

    if (zombie && (geteuid() == 0 || geteuid() == f->owner)) {
        p += 2;
        for (int i = 0; p && i <= FIELD_CODE; i++) {
            if (i == FIELD_START)
                start = strtoull(p, NULL, 10);
            if (i == FIELD_CODE && start == f->process.start)
                code = (int)strtol(p, NULL, 10);
            p = strchr(p, ' ');
            p = p ? p + 1 : NULL;
        }
    }
    pb_arena_finish(&a);
    return code;
}

void pb_folder_note_end(const struct pb_folder *f)
{
    int code = pb_exit_code(f->pidfd), dir, fd, n;
    char text[80];

    code = code < 0 ? code_of_zombie(f) : code;
    if (geteuid() != f->owner || f->copied)
        return;
    dir = open(f->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    fd = dir >= 0 ? openat(dir, PB_HOME_END, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                           0600)
                  : -1;
    n = snprintf(text, sizeof text, "ended_ns=%lld\n", (long long)f->process.until_ns);
    if (code >= 0)
        n += snprintf(text + n, sizeof text - (size_t)n, "code=%d\n", code);
    if (fd >= 0 && write(fd, text, (size_t)n) != n)
        unlinkat(dir, PB_HOME_END, 0);
    if (fd >= 0)
        close(fd);
    if (dir >= 0)
        close(dir);
}

const char *pb_store_end(const struct pb_store *s, struct pb_arena *a, bool *ret_killed)
{
    const char *text = pb_store_value(s->end, "code", a);
    int code = text ? atoi(text) : -1;

    *ret_killed = false;
    if (code < 0)
        return NULL;
    *ret_killed = WIFSIGNALED(code);
    return pb_exit_text(code, a);
}
