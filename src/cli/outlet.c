#include "cli/outlet.h"

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

int pb_outlet_screen(void)
{
    struct winsize ws;

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 ? ws.ws_row : 0;
}

static int failed(struct pb_ctx *ctx, const char *path)
{
    return pb_err_set(&ctx->err, PB_FAIL, "%s: %s", path, strerror(errno));
}

/* Something that is no plain file (a pipe, /dev/null) is written as it is; a link is followed. */
static int open_file(struct pb_outlet *o, const char *path)
{
    struct pb_ctx *ctx = o->ctx;
    struct stat st;
    char real[PATH_MAX];
    const char *slash;
    int fd;

    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
            return failed(ctx, path);
    } else {
        o->path = pb_arena_strdup(&ctx->arena, realpath(path, real) ? real : path);
        slash = strrchr(o->path, '/');
        o->temporary = pb_arena_printf(&ctx->arena, "%.*s.%s.%d.part",
                                       slash ? (int)(slash + 1 - o->path) : 0, o->path,
                                       slash ? slash + 1 : o->path, (int)getpid());
        fd = open(o->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (fd < 0) {
            o->temporary = NULL;
            return failed(ctx, path);
        }
    }
    ctx->out.fd = fd;
    ctx->out.is_terminal = ctx->out.colour = false;
    ctx->out.width = 0;
    return 0;
}

int pb_outlet_open(struct pb_ctx *ctx, struct pb_outlet *o, const char *path, bool page)
{
    *o = (struct pb_outlet){.ctx = ctx, .stdout_print = ctx->out};
    if (path && strcmp(path, "-") != 0)
        return open_file(o, path);
    o->pages = page && ctx->out.is_terminal;
    return 0;
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
    int lines = pb_outlet_screen() - 1;
    const char *p = b->data, *end = b->data + b->len;

    while (lines > 0 && p && p < end && (p = memchr(p, '\n', (size_t)(end - p)))) {
        p++;
        lines--;
    }
    return lines == 0 && p && p < end;
}

/* The shell ends with 127 at once when there is no such program; then the text comes plain. */
static void start_pager(struct pb_outlet *o)
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

int pb_outlet_flush(struct pb_outlet *o)
{
    if (o->pages && o->ctx->out.buf.len && longer_than_screen(&o->ctx->out.buf))
        start_pager(o);
    return pb_print_flush(&o->ctx->out, &o->ctx->err);
}

static int finish_file(struct pb_outlet *o, bool whole)
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

int pb_outlet_close(struct pb_outlet *o, bool whole)
{
    struct pb_print *out = &o->ctx->out;
    struct pb_buf rest;
    int rc = pb_outlet_flush(o);

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
