/*
 * Starting nodes on other machines. By ssh each host has a process of its own here, many at once:
 *
 *     1. is this very program there, and the SQL engine? by hash, at the same path or in the cache
 *     2. what is missing is copied, under a name of its own, and renamed
 *     3. the node is started and told to join; the token goes by stdin
 *
 * ssh itself asks nothing: who needs a password or an unknown key confirmed is told so.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sha256.h"
#include "cli/cluster/cluster.h"
#include "host/text/buf.h"
#include "node/query/query.h"

#define AT_ONCE 32
#define SAID_MAX 4096
#define HOST_SECONDS 300

struct starting {
    struct pb_ctx *ctx;
    const struct pb_cluster_start *w;
    char program[PATH_MAX], engine[PATH_MAX]; /* here; engine "" when there is none */
    char hash[PB_SHA256_TEXT];                /* hash of the program */
    const char *machine;                      /* uname -m */
};

static int hash_file(const char *path, char ret[PB_SHA256_TEXT])
{
    unsigned char piece[65536], sum[PB_SHA256_BYTES];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct pb_sha256 h;
    ssize_t n = -1;

    pb_sha256_init(&h);
    while (fd >= 0 && (n = read(fd, piece, sizeof piece)) > 0)
        pb_sha256_add(&h, piece, (size_t)n);
    if (fd >= 0)
        close(fd);
    pb_sha256_finish(&h, sum);
    for (int i = 0; i < PB_SHA256_BYTES; i++)
        snprintf(ret + 2 * i, 3, "%02x", sum[i]);
    return n == 0 ? 0 : -1;
}

/* Text inside single quotes of a shell. */
static const char *quoted(struct pb_ctx *ctx, const char *text)
{
    struct pb_buf b = PB_BUF_INIT;
    const char *ret;

    pb_buf_putc(&b, '\'');
    for (; *text; text++) {
        if (*text == '\'')
            pb_buf_puts(&b, "'\\''");
        else
            pb_buf_putc(&b, *text);
    }
    pb_buf_putc(&b, '\'');
    ret = pb_arena_strdup(&ctx->arena, b.data);
    pb_buf_finish(&b);
    return ret;
}

/* What goes to the stdin of a command: a file, or a text, or nothing. */
struct input {
    const char *file, *text;
};

static int open_input(const struct input *in)
{
    int ends[2];

    if (in && in->file)
        return open(in->file, O_RDONLY | O_CLOEXEC);
    if (!in || !in->text)
        return open("/dev/null", O_RDONLY | O_CLOEXEC);
    /* A token and a line end fit into any pipe. */
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    if (write(ends[1], in->text, strlen(in->text)) < 0 || write(ends[1], "\n", 1) < 0) {
        close(ends[0]);
        ends[0] = -1;
    }
    close(ends[1]);
    return ends[0];
}

/* Runs ssh HOST COMMAND; what both streams say goes to said. Exit status, or -1. */
static int ssh(const char *host, const char *command, const struct input *in, char *said)
{
    const char *program = getenv("PROBING_SSH");
    int ends[2], input = open_input(in), status = -1;
    size_t len = 0;
    ssize_t n;
    pid_t pid;

    said[0] = '\0';
    if (input < 0 || pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    pid = fork();
    if (pid == 0) {
        dup2(input, 0);
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        execlp(program && *program ? program : "ssh", "ssh", "-T", "-o", "BatchMode=yes", "-o",
               "ConnectTimeout=10", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3",
               "--", host, command, (char *)NULL);
        dprintf(2, "ssh: %s\n", strerror(errno));
        _exit(127);
    }
    close(input);
    close(ends[1]);
    while (pid > 0 && (n = read(ends[0], said + len, SAID_MAX - 1 - len)) > 0)
        len += (size_t)n < SAID_MAX - 1 - len ? (size_t)n : 0;
    said[len] = '\0';
    close(ends[0]);
    if (pid > 0)
        waitpid(pid, &status, 0);
    return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The last line that says something, as the reason. */
static const char *last_line(char *said)
{
    char *end = said + strlen(said), *line;

    while (end > said && (end[-1] == '\n' || end[-1] == '\r' || end[-1] == ' '))
        *--end = '\0';
    line = strrchr(said, '\n');
    line = line ? line + 1 : said;
    return strncmp(line, "probing: ", 9) == 0 ? line + 9 : line;
}

#define FOLDER "\"${XDG_CACHE_HOME:-$HOME/.cache}/probing/%.16s\""

/* Which of both files are missing there. */
static int look(struct starting *s, const char *host, char *said)
{
    const char *command = pb_arena_printf(
        &s->ctx->arena,
        "m=$(uname -m); [ \"$m\" = %s ] || { echo \"another machine: $m\"; exit 3; }; "
        "p=%s; if [ \"$(sha256sum \"$p\" 2>/dev/null | cut -c1-64)\" = %s ]; then echo =same; "
        "exit 0; fi; d=" FOLDER "; mkdir -p \"$d\" && chmod 700 \"$d\" || exit 4; "
        "[ -x \"$d/probing\" ] || echo =program; [ -r \"$d/libduckdb.so\" ] || echo =engine",
        s->machine, quoted(s->ctx, s->program), s->hash, s->hash);

    return ssh(host, command, NULL, said);
}

static int copy(struct starting *s, const char *host, const char *file, const char *as, char *said)
{
    const struct input in = {.file = file};
    const char *command = pb_arena_printf(
        &s->ctx->arena,
        "d=" FOLDER "; t=\"$d/.%s.$$\"; cat >\"$t\" && chmod 700 \"$t\" && mv \"$t\" \"$d/%s\"",
        s->hash, as, as);

    return ssh(host, command, &in, said);
}

static int start(struct starting *s, const char *host, const char *seed, bool same, char *said)
{
    const struct input in = {.text = s->w->token};
    const char *name = s->w->name
                           ? pb_arena_printf(&s->ctx->arena, "--name %s ",
                                             quoted(s->ctx, s->w->name))
                           : "";
    const char *command = pb_arena_printf(
        &s->ctx->arena,
        "d=" FOLDER "; p=%s; exec \"$p\" --token-file /dev/stdin cluster attach --quiet --no-start "
        "%s%s",
        s->hash, same ? quoted(s->ctx, s->program) : "\"$d/probing\"", name, quoted(s->ctx, seed));

    return ssh(host, command, &in, said);
}

/* In a process of its own: writes one line, "+" for done or the reason. */
static void start_one(struct starting *s, const struct pb_cluster_host *h, int out)
{
    const char *own = pb_cluster_own_address(s->ctx, h->address);
    char *said = pb_arena_alloc(&s->ctx->arena, SAID_MAX);
    bool same, engine, program;
    int rc;

    alarm(HOST_SECONDS);
    if (!own) {
        dprintf(out, "no way to it from here\n");
        return;
    }
    rc = look(s, h->login, said);
    same = strstr(said, "=same");
    program = strstr(said, "=program");
    engine = strstr(said, "=engine");
    if (rc == 0 && program)
        rc = copy(s, h->login, s->program, "probing", said);
    if (rc == 0 && engine && s->engine[0])
        rc = copy(s, h->login, s->engine, "libduckdb.so", said);
    if (rc == 0)
        rc = start(s, h->login, pb_cluster_join(s->ctx, own, s->w->port), same, said);
    if (rc == 0)
        dprintf(out, "+\n");
    else
        dprintf(out, "%.400s\n", *said ? last_line(said) : "ssh failed");
}

struct child {
    struct pb_cluster_host *host;
    pid_t pid;
    int fd;
};

static void begin(struct starting *s, struct child *c)
{
    int ends[2];

    c->pid = pipe2(ends, O_CLOEXEC) < 0 ? -1 : fork();
    if (c->pid == 0) {
        signal(SIGINT, SIG_DFL);
        start_one(s, c->host, ends[1]);
        _exit(0);
    }
    if (c->pid < 0) {
        c->host->why = strerror(errno);
        c->fd = -1;
        return;
    }
    close(ends[1]);
    c->fd = ends[0];
}

static void end(struct starting *s, struct child *c)
{
    char line[512] = "";
    ssize_t n = c->fd >= 0 ? read(c->fd, line, sizeof line - 1) : -1;

    if (c->fd >= 0)
        close(c->fd);
    if (c->pid > 0)
        waitpid(c->pid, NULL, 0);
    line[n > 0 ? n : 0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    if (strcmp(line, "+") == 0) {
        c->host->how = "started by ssh";
        c->host->why = NULL;
    } else if (c->pid > 0) {
        c->host->why = pb_arena_strdup(&s->ctx->arena, *line ? line : "ssh took too long");
    }
}

static int prepare(struct starting *s, struct pb_err *err)
{
    struct utsname u;
    ssize_t n = readlink("/proc/self/exe", s->program, sizeof s->program - 1);

    if (n <= 0 || hash_file("/proc/self/exe", s->hash) < 0)
        return pb_err_set(err, PB_FAIL, "this program cannot be read: %s", strerror(errno));
    s->program[n] = '\0';
    uname(&u);
    s->machine = pb_arena_strdup(&s->ctx->arena, u.machine);
    if (!pb_query_library(s->engine, sizeof s->engine))
        s->engine[0] = '\0';
    return 0;
}

void pb_cluster_start_ssh(struct pb_ctx *ctx, const struct pb_cluster_start *w,
                          struct pb_cluster_host **v, size_t n)
{
    struct starting s = {.ctx = ctx, .w = w};
    struct child *c = PB_NEW_N(&ctx->arena, struct child, n + 1);
    struct pb_err err = {0};

    if (prepare(&s, &err) < 0) {
        for (size_t i = 0; i < n; i++)
            v[i]->why = pb_arena_strdup(&ctx->arena, err.msg);
        return;
    }
    pb_print_flush(&ctx->out, NULL);
    for (size_t i = 0, done = 0; done < n;) {
        for (; i < n && i - done < AT_ONCE; i++) {
            c[i].host = v[i];
            begin(&s, &c[i]);
        }
        end(&s, &c[done++]);
    }
}

/* Names that Slurm knows the hosts by. */
static const char *node_list(struct pb_ctx *ctx, struct pb_cluster_host **v, size_t n)
{
    struct pb_buf b = PB_BUF_INIT;
    const char *list;

    for (size_t i = 0; i < n; i++)
        pb_buf_printf(&b, "%s%s", i ? "," : "", v[i]->login);
    list = pb_arena_strdup(&ctx->arena, b.data);
    pb_buf_finish(&b);
    return list;
}

/*
 * The step lives as long as the nodes do, since Slurm ends what a step has started when the step
 * ends; so srun is left running on its own. The token is in its environment, which is the user's.
 */
void pb_cluster_start_slurm(struct pb_ctx *ctx, const struct pb_cluster_start *w, const char *job,
                            struct pb_cluster_host **v, size_t n)
{
    const char *own = pb_cluster_own_address(ctx, v[0]->address), *srun = getenv("PROBING_SRUN");
    struct starting s = {.ctx = ctx, .w = w};
    struct pb_err err = {0};
    int ends[2], failed = 0;
    pid_t pid = -1;

    if (own && prepare(&s, &err) == 0 && pipe2(ends, O_CLOEXEC) == 0)
        pid = fork();
    if (pid == 0) {
        int quiet = open("/dev/null", O_RDWR);

        setsid();
        dup2(quiet, 0);
        dup2(quiet, 1);
        dup2(quiet, 2);
        setenv("PROBING_TOKEN", w->token, 1);
        execlp(srun && *srun ? srun : "srun", "srun", "--overlap",
               pb_arena_printf(&ctx->arena, "--jobid=%s", job),
               pb_arena_printf(&ctx->arena, "--nodelist=%s", node_list(ctx, v, n)),
               pb_arena_printf(&ctx->arena, "--nodes=%zu", n), "--ntasks-per-node=1", "--quiet",
               "--export=ALL", s.program, "cluster", "attach", "--quiet", "--no-start", "--stay",
               "--name", w->name ? w->name : "default", pb_cluster_join(ctx, own, w->port),
               (char *)NULL);
        failed = errno;
        if (write(ends[1], &failed, sizeof failed) < 0)
            _exit(126);
        _exit(127);
    }
    if (pid > 0) {
        close(ends[1]);
        if (read(ends[0], &failed, sizeof failed) <= 0)
            failed = 0;
        close(ends[0]);
    }
    for (size_t i = 0; i < n; i++) {
        v[i]->how = pid > 0 && !failed ? "started by srun" : NULL;
        v[i]->why = !v[i]->how
                        ? pb_arena_printf(&ctx->arena, "srun: %s", failed     ? strerror(failed)
                                                                   : err.code ? err.msg
                                                                   : own      ? strerror(errno)
                                                                              : "no way to it")
                        : NULL;
    }
}
