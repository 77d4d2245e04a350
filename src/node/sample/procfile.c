#include "node/sample/procfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static long read_file(char *buf, size_t cap, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t n;
    int saved;

    if (fd < 0)
        return -1;
    do {
        n = read(fd, buf + len, cap - 1 - len);
        if (n > 0)
            len += (size_t)n;
    } while ((n > 0 && len + 1 < cap) || (n < 0 && errno == EINTR));
    saved = errno;
    close(fd);
    errno = saved;
    buf[len] = '\0';
    return n < 0 ? -1 : (long)len;
}

long pb_sample_file(char *buf, size_t cap, const char *fmt, ...)
{
    char path[512];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(path, sizeof path, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return read_file(buf, cap, path);
}

bool pb_sample_number(uint64_t *ret, const char *fmt, ...)
{
    char path[512], text[64];
    const char *at = text;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(path, sizeof path, fmt, ap);
    va_end(ap);
    return n >= 0 && (size_t)n < sizeof path && read_file(text, sizeof text, path) > 0 &&
           pb_scan_u64(&at, ret);
}

static const char *skip_blanks(const char *p)
{
    while (*p == ' ' || *p == '\t')
        p++;
    return p;
}

bool pb_scan_u64(const char **at, uint64_t *ret)
{
    const char *p = skip_blanks(*at);
    uint64_t v = 0;

    if (*p < '0' || *p > '9')
        return false;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (v > (UINT64_MAX - 9) / 10)
            return false;
        v = v * 10 + (uint64_t)(*p - '0');
    }
    *at = p;
    *ret = v;
    return true;
}

bool pb_scan_skip(const char **at, int words)
{
    const char *p = *at;

    for (; words > 0; words--) {
        p = skip_blanks(p);
        if (!*p || *p == '\n')
            return false;
        while (*p && *p != ' ' && *p != '\t' && *p != '\n')
            p++;
    }
    *at = p;
    return true;
}

bool pb_scan_key(const char *text, const char *key, uint64_t *ret)
{
    size_t len = strlen(key);

    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        const char *p;

        line += *line == '\n';
        if (strncmp(line, key, len) != 0)
            continue;
        p = line + len;
        if (*p != ':' && *p != ' ' && *p != '=' && *p != '\t')
            continue;
        p++;
        return pb_scan_u64(&p, ret);
    }
    return false;
}

bool pb_scan_decimal(const char **at, double *ret)
{
    const char *p = *at, *dot;
    uint64_t whole, part;
    double scale = 1;

    if (!pb_scan_u64(&p, &whole) || *p++ != '.' || *p < '0' || *p > '9')
        return false;
    dot = p;
    if (!pb_scan_u64(&p, &part))
        return false;
    for (; dot < p; dot++)
        scale *= 10;
    *ret = (double)whole + (double)part / scale;
    *at = p;
    return true;
}

bool pb_sample_parse_stat(struct pb_sample_stat *ret, const char *text)
{
    /* The name may hold anything, brackets included. */
    const char *p = strrchr(text, ')');
    struct pb_sample_stat s = {0};
    uint64_t threads, pages;

    if (!p || p[1] != ' ' || !p[2])
        return false;
    s.state = p[2];
    p += 3;
    /* Behind the state: ppid pgrp session tty tpgid flags minflt cminflt majflt … */
    if (!pb_scan_skip(&p, 6) || !pb_scan_u64(&p, &s.minor_faults) || !pb_scan_skip(&p, 1) ||
        !pb_scan_u64(&p, &s.major_faults) || !pb_scan_skip(&p, 1) || !pb_scan_u64(&p, &s.utime) ||
        !pb_scan_u64(&p, &s.stime) || !pb_scan_skip(&p, 4) || !pb_scan_u64(&p, &threads) ||
        !pb_scan_skip(&p, 1) || !pb_scan_u64(&p, &s.start) || !pb_scan_u64(&p, &s.vms) ||
        !pb_scan_u64(&p, &pages))
        return false;
    s.threads = (int64_t)threads;
    s.rss = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    *ret = s;
    return true;
}

void pb_sample_row(union pb_cell *cells, const struct pb_sampler *s,
                   const struct pb_sample_tick *t)
{
    memset(cells, 0, s->ring.ncolumns * sizeof *cells);
    for (size_t i = 0; i < s->ring.ncolumns; i++) {
        switch (s->ring.columns[i].type) {
        case PB_TIME:
        case PB_INT:
            cells[i].i = PB_NULL_INT;
            break;
        case PB_REAL:
            cells[i].d = pb_null_real();
            break;
        case PB_BOOL:
            cells[i].b = PB_NULL_BOOL;
            break;
        case PB_NAME:
        case PB_TEXT:
            break; /* zero is NULL */
        }
    }
    cells[0].i = t->now_ns;
}

uint32_t pb_sample_name(struct pb_ring *ring, const char *s)
{
    return s ? pb_ring_name(ring, s, strlen(s)) : PB_NULL_NAME;
}

double pb_sample_rate(uint64_t now, uint64_t before, double unit, double seconds)
{
    if (now < before || seconds <= 0)
        return pb_null_real();
    return (double)(now - before) / unit / seconds;
}
