/* The folder's `meta`: who this process is. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/collectors/collect.h"
#include "agent/collectors/internal.h"
#include "base/pages.h"
#include "store/format.h"

enum { ENVIRON_MAX = 256 << 10, COMMAND_MAX = 2048, PATH_LEN = 1024, JOB_MAX = 128 };

/* Who numbers the processes of a job, and in which variables; the first that is set counts. */
static const char *const rank_names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                         "SLURM_PROCID", NULL};
static const char *const world_names[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                          "SLURM_NTASKS", NULL};
static const char *const local_names[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
                                          "MPI_LOCALRANKID", "SLURM_LOCALID", NULL};
static const char *const job_names[] = {"TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "PBS_JOBID",
                                        "LSB_JOBID", "JOB_NAME", NULL};

/* Reads a file of /proc; its length, and a NUL behind it. */
static size_t slurp(const char *path, char *buf, size_t cap)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t n;

    while (fd >= 0 && len < cap - 1 && (n = read(fd, buf + len, cap - 1 - len)) > 0)
        len += (size_t)n;
    if (fd >= 0)
        close(fd);
    buf[len] = '\0';
    return len;
}

/* The environment of the process: a text of entries, or NULL for what getenv says. */
struct env {
    const char *text;
    size_t len;
};

static const char *look_up(const struct env *e, const char *name)
{
    size_t len = strlen(name);

    if (!e->text)
        return getenv(name);
    for (const char *p = e->text, *end = p + e->len; p < end; p += strlen(p) + 1)
        if (strncmp(p, name, len) == 0 && p[len] == '=')
            return p + len + 1;
    return NULL;
}

static const char *first_of(const struct env *e, const char *const *names)
{
    for (; *names; names++) {
        const char *value = look_up(e, *names);

        if (value && *value)
            return value;
    }
    return NULL;
}

static int64_t number_of(const struct env *e, const char *const *names)
{
    const char *text = first_of(e, names);
    int64_t v = 0;

    if (!text || strlen(text) > 9)
        return -1;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return -1;
        v = v * 10 + (*text - '0');
    }
    return v;
}

void pb_collect_set_rank(struct pb_self *self, int64_t rank, int64_t world_size, int64_t local_rank)
{
    struct pb_collect *c = self->collect;

    pthread_mutex_lock(&c->lock);
    if (rank != c->rank || world_size != c->world_size || local_rank != c->local_rank) {
        c->rank = rank;
        c->world_size = world_size;
        c->local_rank = local_rank;
        c->meta_stale = true;
    }
    pthread_mutex_unlock(&c->lock);
}

void pb_collect_read_ranks(struct pb_self *self, bool now)
{
    char *text = now ? NULL : pb_pages_get(ENVIRON_MAX);
    struct env e = {text, text ? slurp("/proc/self/environ", text, ENVIRON_MAX) : 0};
    int64_t rank;

    /* Another thread may be changing the environment: it is looked at only with the GIL. */
    if (!now && !text)
        return;
    rank = number_of(&e, rank_names);
    if (rank >= 0)
        pb_collect_set_rank(self, rank, number_of(&e, world_names), number_of(&e, local_names));
    pb_pages_free(text, ENVIRON_MAX);
}

struct lines {
    char bytes[6144];
    size_t len;
};

/* One line; control characters become blanks, what is too long is cut. */
static void put(struct lines *l, const char *key, const char *value, size_t max)
{
    size_t start = l->len, room = sizeof l->bytes - start;
    int n = snprintf(l->bytes + start, room, "%s=%.*s\n", key, (int)max, value);

    if (n < 0 || (size_t)n >= room)
        return;
    for (int i = 0; i < n - 1; i++)
        if ((unsigned char)l->bytes[start + (size_t)i] < ' ')
            l->bytes[start + (size_t)i] = ' ';
    l->len += (size_t)n;
}

static void put_number(struct lines *l, const char *key, int64_t value)
{
    char text[24];

    snprintf(text, sizeof text, "%lld", (long long)value);
    put(l, key, text, sizeof text);
}

static void put_command(struct lines *l)
{
    char command[COMMAND_MAX];
    size_t len = slurp("/proc/self/cmdline", command, sizeof command);

    while (len && !command[len - 1])
        len--;
    for (size_t i = 0; i < len; i++)
        if (!command[i])
            command[i] = ' ';
    put(l, "command", command, sizeof command);
}

static void put_host(struct lines *l)
{
    char host[256] = "";

    gethostname(host, sizeof host - 1);
    put(l, "host", host, sizeof host);
}

static void put_executable(struct lines *l)
{
    char path[PATH_LEN];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);

    path[n > 0 ? n : 0] = '\0';
    put(l, "executable", path, sizeof path);
}

static void put_job(struct lines *l)
{
    char *text = pb_pages_get(ENVIRON_MAX);
    struct env e = {text, text ? slurp("/proc/self/environ", text, ENVIRON_MAX) : 0};
    const char *job = text ? first_of(&e, job_names) : NULL;

    if (job)
        put(l, "job_id", job, JOB_MAX);
    pb_pages_free(text, ENVIRON_MAX);
}

void pb_collect_write_meta(struct pb_self *self)
{
    struct pb_collect *c = self->collect;
    struct lines l = {.len = 0};
    char boot[40];
    int folder = pb_collect_folder(c);

    if (folder < 0)
        return;
    pb_home_boot_id(boot);
    put_number(&l, "format", PB_RING_MAJOR);
    put_number(&l, "pid", getpid());
    put_number(&l, "start", (int64_t)pb_home_start_time(0));
    put(&l, "boot_id", boot, sizeof boot);
    put_host(&l);
    put_number(&l, "uid", geteuid());
    put_number(&l, "ppid", getppid());
    put_number(&l, "started_ns", c->started_wall_ns);
    put(&l, "agent", PB_VERSION, 32);
    put(&l, "python", self->py.version, sizeof self->py.version);
    put_executable(&l);
    put_command(&l);
    if (c->rank >= 0)
        put_number(&l, "rank", c->rank);
    if (c->world_size >= 0)
        put_number(&l, "world_size", c->world_size);
    if (c->local_rank >= 0)
        put_number(&l, "local_rank", c->local_rank);
    put_job(&l);
    pb_collect_write(folder, PB_HOME_META, l.bytes, l.len);
    close(folder);
}
