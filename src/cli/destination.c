#include "cli/destination.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRIES 3

int pb_destination_screen(void)
{
    struct winsize ws;

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 ? ws.ws_row : 0;
}

static int failed(struct pb_ctx *ctx, const char *path)
{
    return pb_err_set(&ctx->err, PB_FAIL, "%s: %s", path, strerror(errno));
}

static bool is_stranger(uid_t uid)
{
    return uid != 0 && uid != geteuid();
}

/*
 * What stands under the name: a link of ours or of root's is followed, another user's is not:
 * whoever may write to the folder can put one there that leads to a file of ours. What is no link
 * now is not followed when it has become one meanwhile.
 */
static int look_at(struct pb_ctx *ctx, const char *path, bool *ret_link)
{
    struct stat st;

    *ret_link = false;
    if (lstat(path, &st) < 0)
        return 0;
    *ret_link = S_ISLNK(st.st_mode);
    if (is_stranger(st.st_uid) && (*ret_link || S_ISFIFO(st.st_mode)))
        return pb_err_set(&ctx->err, PB_FAIL, "%s: a %s of another user", path,
                          *ret_link ? "link" : "pipe");
    return 0;
}

/* A new file: what has its name, which can be guessed, is taken away, not followed. */
static int open_temporary(const char *path)
{
    int fd = -1;

    for (int i = 0; i < TRIES && fd < 0; i++) {
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd < 0 && errno == EEXIST)
            unlink(path);
    }
    return fd;
}

/* A pipe, /dev/null: written as it is. */
static int open_special(struct pb_ctx *ctx, const char *path, bool link)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC | (link ? 0 : O_NOFOLLOW));
    struct stat st;

    if (fd < 0)
        return failed(ctx, path);
    if (fstat(fd, &st) == 0 && !S_ISREG(st.st_mode))
        return fd;
    close(fd);
    return pb_err_set(&ctx->err, PB_FAIL, "%s: another file by now", path);
}

static int open_new(struct pb_destination *o, const char *path, bool link)
{
    struct pb_ctx *ctx = o->ctx;
    char real[PATH_MAX];
    const char *slash;
    int fd;

    o->path = pb_arena_strdup(&ctx->arena, link && realpath(path, real) ? real : path);
    slash = strrchr(o->path, '/');
    o->temporary =
        pb_arena_printf(&ctx->arena, "%.*s.%s.%d.part", slash ? (int)(slash + 1 - o->path) : 0,
                        o->path, slash ? slash + 1 : o->path, (int)getpid());
    fd = open_temporary(o->temporary);
    if (fd >= 0)
        return fd;
    o->temporary = NULL;
    return failed(ctx, path);
}

static int open_file(struct pb_destination *o, const char *path)
{
    struct pb_ctx *ctx = o->ctx;
    struct stat st;
    bool link;
    int fd;

    if (look_at(ctx, path, &link) < 0)
        return -1;
    fd = stat(path, &st) == 0 && !S_ISREG(st.st_mode) ? open_special(ctx, path, link)
                                                      : open_new(o, path, link);
    if (fd < 0)
        return -1;
    ctx->out.fd = fd;
    ctx->out.is_terminal = ctx->out.colour = false;
    ctx->out.width = 0;
    return 0;
}

int pb_destination_folder(struct pb_ctx *ctx, const char *path)
{
    bool link;
    int fd;

    if (mkdir(path, 0777) < 0 && errno != EEXIST)
        return failed(ctx, path);
    if (look_at(ctx, path, &link) < 0)
        return -1;
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (link ? 0 : O_NOFOLLOW));
    return fd < 0 ? failed(ctx, path) : fd;
}

int pb_destination_open(struct pb_ctx *ctx, struct pb_destination *o, const char *path, bool page)
{
    *o = (struct pb_destination){.ctx = ctx, .stdout_print = ctx->out};
    if (path && strcmp(path, "-") != 0)
        return open_file(o, path);
    o->pages = page && ctx->out.is_terminal;
    return 0;
}

int pb_destination_check(struct pb_ctx *ctx, const char *path)
{
    struct pb_destination o;
    struct stat st;

    if (!path || strcmp(path, "-") == 0 || (stat(path, &st) == 0 && !S_ISREG(st.st_mode) &&
                                            !S_ISDIR(st.st_mode)))
        return 0;
    if (pb_destination_open(ctx, &o, path, false) < 0)
        return -1;
    return pb_destination_close(&o, false);
}

static const char *pager_command(void)
{
    const char *command = getenv("PROBING_PAGER");

    if (!command)
        command = getenv("PAGER");
    if (!command)
        return "less -FRSX";
    return *command && strcmp(command, "cat") != 0 ? command : NULL;
}

static bool longer_than_screen(const struct pb_buf *b)
{
    int lines = pb_destination_screen() - 1;
    const char *p = b->data, *end = b->data + b->len;

    while (lines > 0 && p && p < end && (p = memchr(p, '\n', (size_t)(end - p)))) {
        p++;
        lines--;
    }
    return lines == 0 && p && p < end;
}

/* The shell ends with 127 at once when there is no such program; then the text comes plain. */
static void start_pager(struct pb_destination *o)
{
    const char *command = pager_command();
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    int ends[2];
    pid_t pid;

    o->pages = false;
    if (!command || pipe2(ends, O_CLOEXEC) < 0)
        return;
    pid = fork();
    if (pid == 0) {
        signal(SIGPIPE, SIG_DFL);
        dup2(ends[0], STDIN_FILENO);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    close(ends[0]);
    if (pid < 0) {
        close(ends[1]);
        return;
    }
    /* Ctrl-C belongs to the pager from now on. */
    sigaction(SIGINT, &ignore, &o->interrupt);
    o->pager = pid;
    o->ctx->out.fd = ends[1];
}

int pb_destination_flush(struct pb_destination *o)
{
    if (o->pages && o->ctx->out.buf.len && longer_than_screen(&o->ctx->out.buf))
        start_pager(o);
    return pb_print_flush(&o->ctx->out, &o->ctx->err);
}

static int finish_file(struct pb_destination *o, bool whole)
{
    int rc = 0;

    if (close(o->ctx->out.fd) < 0 && whole)
        rc = failed(o->ctx, o->path ? o->path : "output");
    if (!o->temporary)
        return rc;
    if (rc == 0 && whole && rename(o->temporary, o->path) < 0)
        rc = failed(o->ctx, o->path);
    if (rc < 0 || !whole)
        unlink(o->temporary);
    return rc;
}

int pb_destination_close(struct pb_destination *o, bool whole)
{
    struct pb_print *out = &o->ctx->out;
    struct pb_buf rest;
    int rc = pb_destination_flush(o);

    if (out->fd != o->stdout_print.fd) {
        if (o->pager)
            close(out->fd);
        else if (finish_file(o, whole && rc == 0) < 0)
            rc = -1;
    }
    if (o->pager) {
        while (waitpid(o->pager, NULL, 0) < 0 && errno == EINTR)
            ;
        sigaction(SIGINT, &o->interrupt, NULL);
    }
    rest = out->buf;
    *out = o->stdout_print;
    out->buf = rest;
    return rc;
}
