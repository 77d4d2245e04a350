#include "host/os/kernel_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define LOOK_NS 50000000u

size_t pb_kernel_log(const char *part, int seconds, const char **lines, size_t max,
                     struct pb_arena *a)
{
    int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    uint64_t now = pb_clock_ns(), end = now + LOOK_NS;
    char record[8192];
    size_t n = 0;

    while (fd >= 0 && pb_clock_ns() < end) {
        ssize_t got = read(fd, record, sizeof record - 1);
        char *text, *time;

        if (got < 0 && (errno == EPIPE || errno == EINTR))
            continue; /* the log moved on */
        if (got <= 0)
            break;
        /* "level,number,microseconds,flags;text\n key=value…" */
        record[got] = '\0';
        text = strchr(record, ';');
        time = strchr(record, ',');
        time = time ? strchr(time + 1, ',') : NULL;
        if (!text || !time || !strstr(text, part) ||
            strtoull(time + 1, NULL, 10) * 1000 + (uint64_t)seconds * 1000000000 < now)
            continue;
        text[1 + strcspn(text + 1, "\n")] = '\0';
        if (n == max)
            memmove(lines, lines + 1, --n * sizeof *lines);
        lines[n++] = pb_arena_strdup(a, text + 1);
    }
    if (fd >= 0)
        close(fd);
    return n;
}

bool pb_kernel_line_fits(const char *line, pid_t pid)
{
    const char *at = strstr(line, "pid=");

    return !at || strspn(at + 4, "0123456789") == 0 || strtol(at + 4, NULL, 10) == pid;
}
