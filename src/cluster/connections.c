#include "cluster/connections.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Enough for any rank; a process that has more is not read to its end. */
#define SOCKETS_MAX 16384
#define ESTABLISHED 1

struct inodes {
    unsigned long *v;
    size_t n;
};

static int compare(const void *a, const void *b)
{
    unsigned long x = *(const unsigned long *)a, y = *(const unsigned long *)b;

    return (x > y) - (x < y);
}

/* The sockets that a process has open. */
static void read_inodes(pid_t pid, struct inodes *ret, struct pb_arena *a)
{
    char path[64], link[64];
    struct dirent *e;
    DIR *d;

    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    d = opendir(path);
    ret->v = PB_NEW_N(a, unsigned long, SOCKETS_MAX);
    while (d && (e = readdir(d)) && ret->n < SOCKETS_MAX) {
        ssize_t len = readlinkat(dirfd(d), e->d_name, link, sizeof link - 1);

        if (len <= 0)
            continue;
        link[len] = '\0';
        if (sscanf(link, "socket:[%lu]", &ret->v[ret->n]) == 1)
            ret->n++;
    }
    if (d)
        closedir(d);
    qsort(ret->v, ret->n, sizeof *ret->v, compare);
}

/* Of the kernel's table: words of 32 bits in this machine's order, most significant digit first. */
static bool read_address(const char *hex, size_t digits, unsigned char *bytes)
{
    for (size_t i = 0; i < digits / 8; i++) {
        char word[9];
        uint32_t v;

        memcpy(word, hex + 8 * i, 8);
        word[8] = '\0';
        v = (uint32_t)strtoul(word, NULL, 16);
        memcpy(bytes + 4 * i, &v, 4);
    }
    return digits == 8 || digits == 32;
}

static bool is_mapped(const unsigned char *bytes)
{
    static const unsigned char prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

    return memcmp(bytes, prefix, sizeof prefix) == 0;
}

static void add_peer(const char *local, const char *remote, size_t digits, struct pb_hosts *h,
                     struct pb_arena *a)
{
    unsigned char here[16], there[16], *p = there;
    char text[INET6_ADDRSTRLEN];
    bool four = digits == 8;

    if (!read_address(local, digits, here) || !read_address(remote, digits, there) ||
        memcmp(here, there, digits / 2) == 0)
        return;
    if (!four && is_mapped(there)) {
        p += 12;
        four = true;
    }
    if (four && p[0] == 127)
        return;
    if (inet_ntop(four ? AF_INET : AF_INET6, p, text, sizeof text))
        pb_hosts_add(h, text, a, NULL);
}

/* "  0: 0100007F:1F90 0200007F:C350 01 …:… …:… … uid timeout inode …" */
static void read_line(const char *line, const struct inodes *own, struct pb_hosts *h,
                      struct pb_arena *a)
{
    char local[40], remote[40];
    unsigned state, local_port, remote_port;
    unsigned long inode;

    if (sscanf(line, " %*u: %32[0-9A-Fa-f]:%x %32[0-9A-Fa-f]:%x %x %*s %*s %*s %*s %*s %lu", local,
               &local_port, remote, &remote_port, &state, &inode) != 6 ||
        state != ESTABLISHED || strlen(local) != strlen(remote) || !own->n ||
        !bsearch(&inode, own->v, own->n, sizeof *own->v, compare))
        return;
    add_peer(local, remote, strlen(local), h, a);
}

static void read_table(pid_t pid, const char *name, const struct inodes *own, struct pb_hosts *h,
                       struct pb_arena *a)
{
    char path[64], *line = NULL;
    size_t cap = 0, lines = 0;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/net/%s", (int)pid, name);
    f = fopen(path, "re");
    while (f && getline(&line, &cap, f) > 0 && lines++ < 1u << 20)
        read_line(line, own, h, a);
    free(line);
    if (f)
        fclose(f);
}

void pb_connections_read(const pid_t *pids, size_t n, struct pb_hosts *h, struct pb_arena *a)
{
    for (size_t i = 0; i < n; i++) {
        struct inodes own = {0};

        read_inodes(pids[i], &own, a);
        read_table(pids[i], "tcp", &own, h, a);
        read_table(pids[i], "tcp6", &own, h, a);
    }
}
