/* Where the machines of a job are. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/cluster/cluster.h"
#include "cluster/connections.h"
#include "cluster/jobenv.h"
#include "host/net/http.h"
#include "host/python/processes.h"

#define PIDS_MAX 1024

const char *pb_cluster_join(struct pb_ctx *ctx, const char *address, int port)
{
    return pb_arena_printf(&ctx->arena, strchr(address, ':') ? "[%s]:%d" : "%s:%d", address, port);
}

/* Connects nothing: the kernel says which way it would go. */
const char *pb_cluster_own_address(struct pb_ctx *ctx, const char *address)
{
    struct addrinfo want = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICHOST}, *found;
    struct sockaddr_storage own;
    socklen_t len = sizeof own;
    char text[64] = "";
    int fd;

    if (getaddrinfo(address, "9", &want, &found) != 0)
        return NULL;
    fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) == 0 &&
        getsockname(fd, (struct sockaddr *)&own, &len) == 0)
        getnameinfo((struct sockaddr *)&own, len, text, sizeof text, NULL, 0, NI_NUMERICHOST);
    if (fd >= 0)
        close(fd);
    freeaddrinfo(found);
    return *text ? pb_arena_strdup(&ctx->arena, text) : NULL;
}

/* The addresses of this machine, as text. */
static void own_addresses(struct pb_ctx *ctx, struct pb_hosts *ret)
{
    struct ifaddrs *all = NULL;
    char text[64];

    if (getifaddrs(&all) < 0)
        return;
    for (struct ifaddrs *i = all; i; i = i->ifa_next) {
        socklen_t len = i->ifa_addr && i->ifa_addr->sa_family == AF_INET6
                            ? sizeof(struct sockaddr_in6)
                            : sizeof(struct sockaddr_in);

        if (!i->ifa_addr ||
            (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6) ||
            getnameinfo(i->ifa_addr, len, text, sizeof text, NULL, 0, NI_NUMERICHOST) != 0)
            continue;
        text[strcspn(text, "%")] = '\0';
        pb_hosts_add(ret, text, &ctx->arena, NULL);
    }
    freeifaddrs(all);
}

static bool has(const struct pb_hosts *h, const char *name)
{
    for (size_t i = 0; i < h->n; i++)
        if (strcmp(h->v[i], name) == 0)
            return true;
    return false;
}

/* "gpu17:7708" → its first address and the port. */
static void resolve(struct pb_ctx *ctx, const char *word, struct pb_cluster_host *ret)
{
    struct addrinfo want = {.ai_socktype = SOCK_STREAM}, *found, *best;
    char host[PB_HTTP_NAME_MAX], port[8], text[64];
    const char *colon = strrchr(word, ':');
    unsigned char bytes[16];
    int rc;

    *ret = (struct pb_cluster_host){.name = word};
    snprintf(host, sizeof host, "%s", word);
    /* A port behind a name, an IPv4 address or brackets; not the end of an IPv6 address. */
    if (colon && (memchr(word, ':', (size_t)(colon - word)) == NULL || colon[-1] == ']') &&
        inet_pton(AF_INET6, word, bytes) != 1) {
        if (pb_http_split(word, host, port, &ctx->err) < 0) {
            ret->why = pb_arena_strdup(&ctx->arena, ctx->err.msg);
            ctx->err = (struct pb_err){0};
            return;
        }
        ret->port = atoi(port);
    }
    ret->login = pb_arena_strdup(&ctx->arena, host);
    rc = getaddrinfo(host, NULL, &want, &found);
    if (rc != 0) {
        ret->why = gai_strerror(rc);
        return;
    }
    best = found;
    for (struct addrinfo *p = found; p; p = p->ai_next)
        if (p->ai_family == AF_INET && best->ai_family != AF_INET)
            best = p;
    if (getnameinfo(best->ai_addr, best->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST) ==
        0)
        ret->address = pb_arena_strdup(&ctx->arena, text);
    freeaddrinfo(found);
}

/* Each machine once, without this one; a name is nicer than an address. */
static void resolve_all(struct pb_ctx *ctx, const struct pb_hosts *names,
                        struct pb_cluster_hosts *ret)
{
    struct pb_hosts own = {0};

    own_addresses(ctx, &own);
    ret->v = PB_NEW_N(&ctx->arena, struct pb_cluster_host, names->n + 1);
    for (size_t i = 0; i < names->n; i++) {
        struct pb_cluster_host one;
        bool known = false;

        resolve(ctx, names->v[i], &one);
        if (one.address && has(&own, one.address) && !one.port)
            continue;
        for (size_t k = 0; k < ret->n && one.address; k++)
            known |= ret->v[k].address && strcmp(ret->v[k].address, one.address) == 0 &&
                     ret->v[k].port == one.port;
        if (!known)
            ret->v[ret->n++] = one;
    }
}

static int named(struct pb_ctx *ctx, char **words, int n, struct pb_hosts *names)
{
    const char *file = pb_opt_str(ctx, "hosts", NULL);

    if (file && pb_hosts_read(names, file, &ctx->arena, &ctx->err) < 0)
        return -1;
    for (int i = 0; i < n; i++)
        if (pb_hosts_expand(names, words[i], &ctx->arena, &ctx->err) < 0)
            return -1;
    return 0;
}

/* Asks Slurm for the hosts of a job that is not ours by its environment. */
static int hosts_of_slurm(struct pb_ctx *ctx, const char *job, struct pb_hosts *names)
{
    char command[160], list[8192] = "";
    FILE *f;

    if (!*job || job[strspn(job, "0123456789_.+")])
        return pb_err_set(&ctx->err, PB_USAGE, "--slurm: '%s' is no number of a job", job);
    snprintf(command, sizeof command, "squeue -h -o %%N -j %.60s 2>/dev/null", job);
    f = popen(command, "re");
    if (f && !fgets(list, sizeof list, f))
        list[0] = '\0';
    if (f)
        pclose(f);
    list[strcspn(list, "\r\n")] = '\0';
    if (!*list)
        return pb_err_set(&ctx->err, PB_NO_TARGET, "--slurm: squeue knows no running job %s", job);
    return pb_hosts_expand(names, list, &ctx->arena, &ctx->err);
}

/* What the ranks on this machine know of the others; our own alone: whose ranks are asked chooses
   where we go, by ssh and with our token. */
static int of_jobs_here(struct pb_ctx *ctx, struct pb_hosts *names, struct pb_cluster_hosts *ret)
{
    struct pb_process *v;
    pid_t *pids = PB_NEW_N(&ctx->arena, pid_t, PIDS_MAX);
    int n = pb_processes_read(&ctx->arena, &v, &ctx->err);
    size_t npids = 0;

    if (n < 0)
        return -1;
    for (int i = 0; i < n && npids < PIDS_MAX; i++) {
        struct pb_jobenv e;

        if (v[i].rank < 0 || v[i].uid != geteuid())
            continue;
        pb_jobenv_read(v[i].pid, &ctx->arena, &e);
        pb_jobenv_hosts(&e, names, &ctx->arena);
        if (e.slurm && !ret->slurm)
            ret->slurm = e.slurm;
        pids[npids++] = v[i].pid;
    }
    if (!npids)
        return pb_err_set(&ctx->err, PB_NO_TARGET,
                          "no rank of a job runs here that is yours: run it on a machine of the "
                          "job, or name hosts: probing cluster attach HOST…");
    pb_connections_read(pids, npids, names, &ctx->arena);
    ret->found = true;
    return 0;
}

int pb_cluster_find(struct pb_ctx *ctx, char **words, int n, struct pb_cluster_hosts *ret)
{
    const char *slurm = pb_opt_str(ctx, "slurm", NULL);
    struct pb_hosts names = {0};

    *ret = (struct pb_cluster_hosts){.slurm = slurm};
    if (named(ctx, words, n, &names) < 0 || (slurm && hosts_of_slurm(ctx, slurm, &names) < 0))
        return -1;
    if (!slurm && !n && !pb_opt_flag(ctx, "hosts") && of_jobs_here(ctx, &names, ret) < 0)
        return -1;
    resolve_all(ctx, &names, ret);
    return 0;
}
