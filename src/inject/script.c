#include "inject/script.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/embed.h"
#include "host/text/buf.h"
#include "host/process/proc.h"

#define BEGUN "begun "
#define DONE "done "
#define FAILED "fail "

/* Text for a Python literal that needs no escaping. */
static void add_base64(struct pb_buf *b, const void *data, size_t len)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *p = data;

    for (size_t i = 0; i < len; i += 3) {
        uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < len ? (uint32_t)p[i + 1] << 8 : 0) |
                     (i + 2 < len ? p[i + 2] : 0);

        pb_buf_putc(b, digits[v >> 18]);
        pb_buf_putc(b, digits[v >> 12 & 63]);
        pb_buf_putc(b, i + 1 < len ? digits[v >> 6 & 63] : '=');
        pb_buf_putc(b, i + 2 < len ? digits[v & 63] : '=');
    }
}

PB_EMBED(program, "src/inject/script.py")

static void write_text(struct pb_buf *b, const struct pb_inject_opts *o, const char *path)
{
    char folder[256];

    pb_fresh_fd_folder(folder, sizeof folder);
    pb_buf_puts(b, program);
    pb_buf_printf(b, "run('%s', '%s', '", path, folder);
    add_base64(b, o->library, o->library_size);
    pb_buf_puts(b, "', '");
    add_base64(b, o->options, strlen(o->options));
    pb_buf_printf(b, "', '%s', b'" BEGUN "', b'" DONE "', b'" FAILED "')\n", o->entry);
}

static int write_all(int fd, const char *data, size_t len)
{
    while (len) {
        ssize_t n = write(fd, data, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

/*
 * A folder below the target's root. Step by step and never through a link, which would lead to
 * where the target likes, out here.
 */
static int open_folder(int root, const char *path)
{
    char name[16];
    int fd = dup(root);

    while (fd >= 0 && *path) {
        size_t len = strcspn(path += *path == '/', "/");
        int next;

        snprintf(name, sizeof name, "%.*s", (int)len, path);
        next = openat(fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(fd);
        fd = next;
        path += len;
    }
    return fd;
}

/* What is done in the target's folders is done with its rights, and belongs to its user. */
static void act_as(uid_t uid, gid_t gid)
{
    setfsgid(gid);
    setfsuid(uid); /* from root's to another's: capabilities over files go, too */
}

/* Creates the file in one folder of the target. */
static bool create_in(struct pb_script *s, int root, const char *folder, size_t path_max)
{
    uint64_t secret[2];
    int len;

    if (getrandom(secret, sizeof secret, 0) != sizeof secret)
        return false;
    len = snprintf(s->path, sizeof s->path, "%s/probing-%016llx%016llx.py", folder,
                   (unsigned long long)secret[0], (unsigned long long)secret[1]);
    if ((size_t)len >= path_max)
        return false;
    s->folder = open_folder(root, folder);
    if (s->folder < 0)
        return false;
    if (s->uid != geteuid())
        act_as(s->uid, s->gid);
    s->fd = openat(s->folder, s->path + strlen(folder) + 1,
                   O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (s->uid != geteuid())
        act_as(geteuid(), getegid());
    if (s->fd >= 0)
        return true;
    close(s->folder);
    s->folder = -1;
    return false;
}

static int open_root(pid_t pid)
{
    char path[32];

    snprintf(path, sizeof path, "/proc/%d/root", (int)pid);
    return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

int pb_script_create(struct pb_script *s, struct pb_injection *in, size_t path_max,
                     struct pb_err *err)
{
    static const char *const folders[] = {"/dev/shm", "/tmp", "/var/tmp"};
    struct pb_buf text = PB_BUF_INIT;
    struct pb_proc_status st;
    int root, rc;

    memset(s, 0, sizeof *s);
    s->fd = s->folder = -1;
    if (pb_proc_status(&st, in->pid, err) < 0)
        return -1;
    s->uid = st.euid;
    s->gid = st.egid;
    root = open_root(in->pid);
    for (size_t i = 0; i < sizeof folders / sizeof *folders && root >= 0 && s->fd < 0; i++)
        create_in(s, root, folders[i], path_max);
    if (root >= 0)
        close(root);
    if (s->fd < 0)
        return pb_err_set(err, PB_FAIL, "no place for a script in its root: %s", strerror(errno));
    write_text(&text, in->o, s->path);
    rc = write_all(s->fd, text.data, text.len);
    pb_buf_finish(&text);
    if (rc < 0) {
        pb_err_set(err, PB_FAIL, "%s: %s", s->path, strerror(errno));
        pb_script_destroy(s);
    }
    return rc;
}

static bool starts_with(struct pb_script *s, const char *word)
{
    ssize_t n = pread(s->fd, s->answer, sizeof s->answer - 1, 0);

    s->answer[n > 0 ? n : 0] = '\0';
    return strncmp(s->answer, word, strlen(word)) == 0;
}

bool pb_script_begun(struct pb_script *s)
{
    return starts_with(s, BEGUN);
}

bool pb_script_answer(struct pb_script *s)
{
    return starts_with(s, DONE) || starts_with(s, FAILED);
}

int pb_script_result(const struct pb_script *s, int *ret_result, struct pb_err *err)
{
    long result;

    if (strncmp(s->answer, FAILED, strlen(FAILED)) == 0)
        return pb_err_set(err, PB_FAIL, "it cannot load the probe: %s",
                          s->answer + strlen(FAILED));
    result = strtol(s->answer + strlen(DONE), NULL, 10);
    *ret_result = (int)result;
    if (result < 0)
        return pb_err_set(err, PB_FAIL, "the probe did not start: %s", strerror((int)-result));
    return 0;
}

void pb_script_destroy(struct pb_script *s)
{
    if (s->fd < 0)
        return;
    if (s->uid != geteuid())
        act_as(s->uid, s->gid);
    unlinkat(s->folder, strrchr(s->path, '/') + 1, 0);
    if (s->uid != geteuid())
        act_as(geteuid(), getegid());
    close(s->folder);
    close(s->fd);
    s->folder = s->fd = -1;
}
