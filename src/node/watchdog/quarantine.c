#include "node/watchdog/quarantine.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/text/alloc.h"

#define FILE_NAME "rings-set-aside"
#define FILE_MAX (256 << 10)

struct pb_quarantine {
    char *lines; /* "<device> <inode> <created> <why>" */
};

static int open_list(const char *data_dir, int flags)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/" FILE_NAME, data_dir);
    return open(path, flags | O_NOFOLLOW | O_CLOEXEC, 0600);
}

struct pb_quarantine *pb_quarantine_open(const char *data_dir)
{
    struct pb_quarantine *q = pb_alloc_resize(NULL, sizeof *q);
    int fd = open_list(data_dir, O_RDONLY);
    ssize_t n;

    q->lines = pb_alloc_resize(NULL, FILE_MAX);
    n = fd >= 0 ? pread(fd, q->lines, FILE_MAX - 1, 0) : 0;
    q->lines[n > 0 ? n : 0] = '\0';
    if (fd >= 0)
        close(fd);
    return q;
}

void pb_quarantine_close(struct pb_quarantine *q)
{
    if (!q)
        return;
    free(q->lines);
    free(q);
}

bool pb_quarantine_has(const struct pb_quarantine *q, const struct pb_ring_identity *ring,
                       char *why, size_t cap)
{
    const char *end;

    for (const char *line = q ? q->lines : ""; (end = strchr(line, '\n')); line = end + 1) {
        struct pb_ring_identity is;
        int reason = 0;

        if (sscanf(line, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %n", &is.device, &is.inode,
                   &is.created_ns, &reason) != 3 ||
            !reason || is.device != ring->device || is.inode != ring->inode ||
            is.created_ns != ring->created_ns)
            continue;
        snprintf(why, cap, "set aside: it ended a server that read it (%.*s)",
                 (int)(end - line - reason), line + reason);
        return true;
    }
    return false;
}

void pb_quarantine_add(const char *data_dir, const struct pb_ring_identity *ring, const char *why)
{
    int fd = open_list(data_dir, O_WRONLY | O_CREAT | O_APPEND);
    struct stat st;

    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && st.st_size > FILE_MAX - LINE_MAX && ftruncate(fd, 0) < 0)
        st.st_size = 0; /* what stands behind is not read */
    dprintf(fd, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n", ring->device, ring->inode,
            ring->created_ns, why);
    close(fd);
}
