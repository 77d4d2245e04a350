#include "cluster/hostlist.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/text/buf.h"

#define FILE_MAX (4 << 20)

int pb_hosts_add(struct pb_hosts *h, const char *name, struct pb_arena *a, struct pb_err *err)
{
    /* With a dash in front it would be an option of ssh. */
    if (!*name || *name == '-' || strlen(name) >= PB_HOST_NAME_MAX)
        return pb_err_set(err, PB_USAGE, "'%.60s' is no name of a host", name);
    for (const char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr(".-_:[]%", *p))
            return pb_err_set(err, PB_USAGE, "'%.60s' is no name of a host", name);
    for (size_t i = 0; i < h->n; i++)
        if (strcmp(h->v[i], name) == 0)
            return 0;
    if (h->n == PB_HOSTS_MAX)
        return pb_err_set(err, PB_USAGE, "more than %d hosts", PB_HOSTS_MAX);
    if (h->n == h->cap) {
        size_t cap = h->cap ? h->cap * 2 : 16;

        h->v = pb_arena_grow(a, h->v, h->cap * sizeof *h->v, cap * sizeof *h->v);
        h->cap = cap;
    }
    h->v[h->n++] = pb_arena_strdup(a, name);
    return 0;
}

struct expansion {
    struct pb_hosts *hosts;
    struct pb_arena *arena;
    struct pb_err *err;
    char name[PB_HOST_NAME_MAX]; /* the part of the name that is known so far */
};

static int bad(struct expansion *e, const char *text)
{
    return pb_err_set(e->err, PB_USAGE, "'%.80s' is no list of hosts such as gpu[01-03,07]", text);
}

static int expand_from(struct expansion *e, size_t at, const char *rest, size_t len);

/* One number or range inside brackets; behind it goes the rest of the name. */
static int expand_item(struct expansion *e, size_t at, const char *item, size_t n,
                       const char *rest, size_t rest_len)
{
    size_t width = strspn(item, "0123456789");
    unsigned long first, last;

    if (width == 0 || width > 9 || width > n)
        return bad(e, item);
    first = last = strtoul(item, NULL, 10);
    if (width < n) {
        size_t digits = strspn(item + width + 1, "0123456789");

        if (item[width] != '-' || digits == 0 || digits > 9 || width + 1 + digits != n)
            return bad(e, item);
        last = strtoul(item + width + 1, NULL, 10);
    }
    if (last < first || last - first >= PB_HOSTS_MAX)
        return bad(e, item);
    for (unsigned long i = first; i <= last; i++) {
        int put = snprintf(e->name + at, sizeof e->name - at, "%0*lu", (int)width, i);

        if (put < 0 || at + (size_t)put >= sizeof e->name)
            return bad(e, item);
        if (expand_from(e, at + (size_t)put, rest, rest_len) < 0)
            return -1;
    }
    return 0;
}

/* The name so far, then what rest[0..len) stands for. */
static int expand_from(struct expansion *e, size_t at, const char *rest, size_t len)
{
    const char *open = memchr(rest, '[', len), *close;
    size_t plain = open ? (size_t)(open - rest) : len, n;

    if (at + plain >= sizeof e->name)
        return bad(e, rest);
    memcpy(e->name + at, rest, plain);
    at += plain;
    e->name[at] = '\0';
    if (!open)
        return pb_hosts_add(e->hosts, e->name, e->arena, e->err);
    close = memchr(open, ']', len - plain);
    if (!close)
        return bad(e, rest);
    for (const char *item = open + 1; item <= close; item += n + 1) {
        n = strcspn(item, ",]");
        if (expand_item(e, at, item, n, close + 1, (size_t)(rest + len - close - 1)) < 0)
            return -1;
    }
    return 0;
}

/* Bytes up to a comma that is not inside brackets. */
static size_t word_length(const char *list)
{
    bool inside = false;
    size_t n = 0;

    for (; list[n] && (inside || list[n] != ','); n++)
        inside = list[n] == '[' || (inside && list[n] != ']');
    return n;
}

int pb_hosts_expand(struct pb_hosts *h, const char *list, struct pb_arena *a, struct pb_err *err)
{
    struct expansion e = {.hosts = h, .arena = a, .err = err};

    while (*list) {
        size_t n = word_length(list);
        bool has_range = memchr(list, '[', n) && *list != '[';

        if (!has_range && n >= sizeof e.name)
            return bad(&e, list);
        if (has_range && expand_from(&e, 0, list, n) < 0)
            return -1;
        /* Brackets in front are those of an address: "[::1]:8080". */
        if (!has_range && n && pb_hosts_add(h, pb_arena_strndup(a, list, n), a, err) < 0)
            return -1;
        list += n + (list[n] == ',');
    }
    return 0;
}

int pb_hosts_read(struct pb_hosts *h, const char *path, struct pb_arena *a, struct pb_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
    struct pb_buf text = PB_BUF_INIT;
    char piece[4096], *rest, *line;
    ssize_t n = fd < 0 ? -1 : 0;

    while (fd >= 0 && (n = read(fd, piece, sizeof piece)) > 0 && text.len < FILE_MAX)
        pb_buf_add(&text, piece, (size_t)n);
    if (n < 0)
        rc = pb_err_set(err, PB_USAGE, "%s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    rest = text.data;
    while (rc == 0 && rest && (line = strsep(&rest, "\n"))) {
        line += strspn(line, " \t\r");
        line[strcspn(line, " \t\r#")] = '\0';
        if (*line)
            rc = pb_hosts_expand(h, line, a, err);
    }
    pb_buf_finish(&text);
    return rc;
}
