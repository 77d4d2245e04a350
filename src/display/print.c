#include "display/print.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const char *const codes[] = {
    [PB_PLAIN] = "\033[0m", [PB_BOLD] = "\033[1m",   [PB_DIM] = "\033[2m",
    [PB_RED] = "\033[31m",  [PB_GREEN] = "\033[32m", [PB_YELLOW] = "\033[33m",
    [PB_CYAN] = "\033[36m",
};

static bool wants_colour(bool is_terminal)
{
    const char *no = getenv("NO_COLOR");
    const char *term = getenv("TERM");

    if (no && *no)
        return false;
    return is_terminal && term && *term && strcmp(term, "dumb") != 0;
}

static int terminal_width(int fd)
{
    const char *columns = getenv("COLUMNS");
    long forced = columns ? strtol(columns, NULL, 10) : 0;
    struct winsize ws;

    if (forced > 0 && forced < 10000)
        return (int)forced;
    if (ioctl(fd, TIOCGWINSZ, &ws) == 0 && ws.ws_col > 0)
        return ws.ws_col;
    return 80;
}

void pb_print_init(struct pb_print *p, int fd)
{
    bool is_terminal = isatty(fd);

    *p = (struct pb_print){
        .fd = fd,
        .is_terminal = is_terminal,
        .colour = wants_colour(is_terminal),
        .width = is_terminal ? terminal_width(fd) : 0,
    };
}

void pb_print_measure(struct pb_print *p)
{
    p->width = p->is_terminal ? terminal_width(p->fd) : 0;
}

void pb_print_finish(struct pb_print *p)
{
    if (p)
        pb_buf_finish(&p->buf);
}

int pb_print_flush(struct pb_print *p, struct pb_err *err)
{
    size_t done = 0;
    int error = 0;

    while (done < p->buf.len && !p->broken && !error) {
        ssize_t n = write(p->fd, p->buf.data + done, p->buf.len - done);

        if (n >= 0)
            done += (size_t)n;
        else if (errno == EPIPE)
            p->broken = true;
        else if (errno != EINTR)
            error = errno;
    }
    pb_buf_clear(&p->buf);
    if (error)
        return pb_err_set(err, PB_FAIL, "cannot write the output: %s", strerror(error));
    return 0;
}

void pb_print_puts(struct pb_print *p, const char *s)
{
    pb_buf_puts(&p->buf, s);
}

void pb_print_f(struct pb_print *p, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    pb_buf_vprintf(&p->buf, fmt, ap);
    va_end(ap);
}

void pb_print_style(struct pb_print *p, enum pb_style style)
{
    if (p->colour)
        pb_buf_puts(&p->buf, codes[style]);
}

void pb_print_foreign(struct pb_print *p, const char *data, size_t len)
{
    struct pb_text_tail tail = {.len = 0};

    if (!p->is_terminal) {
        pb_buf_add(&p->buf, data, len);
        return;
    }
    pb_text_stream(&tail, data, len, &p->buf);
    pb_text_stream(&tail, NULL, 0, &p->buf);
}

static void print_clean(struct pb_print *p, enum pb_style style, const char *clean)
{
    if (style != PB_PLAIN && *clean) {
        pb_print_style(p, style);
        pb_buf_puts(&p->buf, clean);
        pb_print_style(p, PB_PLAIN);
    } else {
        pb_buf_puts(&p->buf, clean);
    }
}

static void pad(struct pb_print *p, size_t n)
{
    while (n--)
        pb_buf_putc(&p->buf, ' ');
}

void pb_print_text(struct pb_print *p, enum pb_style style, const char *s)
{
    pb_print_cell(p, style, s, 0, false);
}

void pb_print_cell(struct pb_print *p, enum pb_style style, const char *s, size_t width, bool right)
{
    struct pb_arena a = PB_ARENA_INIT;
    const char *clean = pb_text_clean(&a, s);
    size_t used = width ? pb_text_width(clean) : 0;
    size_t padding = used < width ? width - used : 0;

    if (right)
        pad(p, padding);
    print_clean(p, style, clean);
    if (!right)
        pad(p, padding);
    pb_arena_finish(&a);
}
