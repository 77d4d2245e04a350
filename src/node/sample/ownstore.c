#include "node/sample/ownstore.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/process/proc.h"
#include "node/sample/procfile.h"
#include "store/format.h"

/* Written beside and renamed: a reader sees the old lines or the new ones. */
static int replace(int dir, const char *name, const struct pb_buf *lines)
{
    char beside[24];
    int fd, rc = 0;

    snprintf(beside, sizeof beside, ".%.16s", name);
    fd = openat(dir, beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    if (write(fd, lines->data, lines->len) != (ssize_t)lines->len)
        rc = -ENOSPC;
    close(fd);
    if (rc == 0 && renameat(dir, beside, dir, name) < 0)
        rc = -errno;
    if (rc < 0)
        unlinkat(dir, beside, 0);
    return rc;
}

static void add(struct pb_buf *b, const char *key, const char *value)
{
    pb_buf_printf(b, "%s=", key);
    for (; *value; value++)
        pb_buf_putc(b, (unsigned char)*value < 0x20 ? ' ' : *value);
    pb_buf_putc(b, '\n');
}

static int write_meta(const struct pb_own_store *s, const char *host, const char *data_dir)
{
    struct pb_arena scratch = PB_ARENA_INIT;
    struct pb_buf b = PB_BUF_INIT;
    char boot[64] = "", exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    int rc;

    exe[n > 0 ? n : 0] = '\0';
    if (pb_sample_file(boot, sizeof boot, "/proc/sys/kernel/random/boot_id") > 0)
        boot[strcspn(boot, "\n")] = '\0';
    pb_buf_printf(&b, "format=%d\nrole=node\npid=%d\nstart=%llu\nuid=%u\nppid=%d\n", PB_RING_MAJOR,
                  (int)getpid(), (unsigned long long)pb_home_start_time(0), (unsigned)geteuid(),
                  (int)getppid());
    pb_buf_printf(&b, "started_ns=%lld\n",
                  (long long)pb_clock_wall_ns());
    add(&b, "boot_id", boot);
    add(&b, "host", host);
    add(&b, "data", data_dir ? data_dir : "");
    add(&b, "executable", exe);
    add(&b, "command", pb_proc_command(getpid(), &scratch));
    rc = replace(s->dir, "meta", &b);
    pb_buf_finish(&b);
    pb_arena_finish(&scratch);
    return rc;
}

int pb_own_store_open(struct pb_own_store *s, const char *host, const char *data_dir,
                      struct pb_err *err)
{
    uint64_t start = pb_home_start_time(0);
    int rc = -ENOENT;

    *s = (struct pb_own_store){.dir = -1};
    for (size_t i = 0; pb_home_roots[i] && s->dir < 0; i++) {
        s->dir = pb_home_create(s->path, pb_home_roots[i], geteuid(), getpid(), start);
        if (s->dir < 0) {
            rc = s->dir;
            s->dir = -1;
            continue;
        }
        rc = write_meta(s, host, data_dir);
        if (rc < 0) {
            pb_own_store_close(s);
            pb_home_remove(s->path);
        }
    }
    if (s->dir < 0)
        return pb_err_set(err, PB_FAIL, "no folder for the node's own tables: %s", strerror(-rc));
    return 0;
}

void pb_own_store_close(struct pb_own_store *s)
{
    if (s->dir >= 0)
        close(s->dir);
    s->dir = -1;
}

void pb_own_store_say(const struct pb_own_store *s, const struct pb_buf *lines)
{
    /* A full tmpfs keeps the old lines: they are only for those who look at the folder itself. */
    (void)replace(s->dir, "status", lines);
}
