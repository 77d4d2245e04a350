#include "cluster/jobenv.h"

#include <stdlib.h>
#include <string.h>

#include "host/process/proc.h"

/* Indexed jobs of Kubernetes have this many pods at most that are looked for. */
#define PODS_MAX 4096
#define MASTER "-master-0"

struct block {
    const char *p;
    size_t len;
    struct pb_arena *arena;
};

static const char *text_of(const struct block *b, const char *name)
{
    const char *v = pb_proc_getenv(b->p, b->len, name);

    return v && *v ? pb_arena_strdup(b->arena, v) : NULL;
}

static const char *first_of(const struct block *b, const char *const *names)
{
    const char *v = NULL;

    for (; *names && !v; names++)
        v = text_of(b, *names);
    return v;
}

static long number_of(const struct block *b, const char *name)
{
    const char *v = pb_proc_getenv(b->p, b->len, name);
    char *end;
    long n;

    if (!v || !*v)
        return -1;
    n = strtol(v, &end, 10);
    return *end || n < 0 || n > 100000000 ? -1 : n;
}

/* Who numbers the processes of a job; the first that says a rank says all. */
static void read_ranks(const struct block *b, struct pb_jobenv *ret)
{
    static const char *const names[][4] = {
        {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
         "OMPI_COMM_WORLD_LOCAL_SIZE"},
        {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"},
        {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    };

    ret->rank = ret->world = ret->local_rank = ret->local_world = -1;
    for (size_t i = 0; ret->rank < 0 && i < sizeof names / sizeof *names; i++) {
        ret->rank = number_of(b, names[i][0]);
        if (ret->rank < 0)
            continue;
        ret->scheduled = i > 0;
        ret->world = number_of(b, names[i][1]);
        ret->local_rank = number_of(b, names[i][2]);
        ret->local_world = number_of(b, names[i][3]);
    }
    if (ret->rank >= 0 && ret->world >= 0 && ret->rank >= ret->world)
        ret->world = -1;
}

/* Kubeflow's master is <job>-master-0: the length of <job>, or 0. */
static size_t master_cut(const char *name)
{
    size_t len = strcspn(name, "."), cut = sizeof MASTER - 1;

    return len > cut && strncmp(name + len - cut, MASTER, cut) == 0 ? len - cut : 0;
}

/* It may know itself as localhost, where the others know it by its name. */
static const char *read_master(const struct block *b)
{
    const char *master = text_of(b, "MASTER_ADDR"), *host = text_of(b, "HOSTNAME");

    return master && host && strcmp(master, "localhost") == 0 && master_cut(host) ? host : master;
}

static void read_key(const struct block *b, struct pb_jobenv *ret)
{
    static const char *const schedulers[][2] = {
        {"SLURM_JOB_ID", "slurm"}, {"PBS_JOBID", "pbs"}, {"LSB_JOBID", "lsf"},
        {"OMPI_MCA_ess_base_jobid", "mpi"}, {"PMIX_NAMESPACE", "mpi"},
    };
    const char *port = text_of(b, "MASTER_PORT"), *id;

    ret->master = read_master(b);
    if (ret->master && port) {
        ret->key = pb_arena_printf(b->arena, strchr(ret->master, ':') ? "[%.128s]:%.8s"
                                                                      : "%.128s:%.8s",
                                   ret->master, port);
        return;
    }
    for (size_t i = 0; i < sizeof schedulers / sizeof *schedulers && !ret->key; i++) {
        id = text_of(b, schedulers[i][0]);
        if (id)
            ret->key = pb_arena_printf(b->arena, "%s %.100s", schedulers[i][1], id);
    }
}

/* A pod of an indexed job with a headless service is <job>-<index>.<subdomain>. */
static void read_indexed(const struct block *b, struct pb_jobenv *ret)
{
    const char *host = text_of(b, "HOSTNAME"), *index = text_of(b, "JOB_COMPLETION_INDEX");
    const char *master = ret->master, *dot = master ? strchr(master, '.') : NULL;
    size_t cut;

    if (!host || !index || !dot)
        return;
    cut = strlen(host) > strlen(index) ? strlen(host) - strlen(index) : 0;
    if (!cut || strcmp(host + cut, index) != 0 || host[cut - 1] != '-')
        return;
    ret->service = pb_arena_printf(b->arena, "%.*s%s", (int)cut - 1, host, dot);
}

/* Kubeflow's other pods are <job>-worker-<index>; each is a service. */
static void read_kubeflow(const struct block *b, struct pb_jobenv *ret)
{
    size_t cut = ret->master ? master_cut(ret->master) : 0;

    if (!cut)
        return;
    ret->service = pb_arena_printf(b->arena, "%.*s-worker%s", (int)cut, ret->master,
                                   ret->master + cut + sizeof MASTER - 1);
    ret->apart = true;
}

void pb_jobenv_parse(const char *block, size_t len, struct pb_arena *a, struct pb_jobenv *ret)
{
    static const char *const lists[] = {"SLURM_JOB_NODELIST", "SLURM_NODELIST",
                                        "SLURM_STEP_NODELIST", NULL};
    const struct block b = {block, len, a};
    const char *lsf;

    *ret = (struct pb_jobenv){0};
    read_ranks(&b, ret);
    read_key(&b, ret);
    ret->run = text_of(&b, "TORCHELASTIC_RUN_ID");
    ret->restarts = number_of(&b, "TORCHELASTIC_RESTART_COUNT");
    ret->restarts = ret->restarts < 0 ? 0 : ret->restarts;
    ret->slurm = text_of(&b, "SLURM_JOB_ID");
    ret->nodes = first_of(&b, lists);
    lsf = text_of(&b, "LSB_HOSTS"); /* "a a b b": blanks between them */
    if (!ret->nodes && lsf) {
        char *list = pb_arena_strdup(a, lsf);

        for (char *p = list; *p; p++)
            *p = *p == ' ' ? ',' : *p;
        ret->nodes = list;
    }
    ret->hosts_file = text_of(&b, "PBS_NODEFILE");
    read_indexed(&b, ret);
    if (!ret->service)
        read_kubeflow(&b, ret);
}

void pb_jobenv_read(pid_t pid, struct pb_arena *a, struct pb_jobenv *ret)
{
    size_t len = 0;
    const char *block = pb_proc_read(pid, "environ", a, &len);

    pb_jobenv_parse(block ? block : "", block ? len : 0, a, ret);
}

void pb_jobenv_hosts(const struct pb_jobenv *e, struct pb_hosts *h, struct pb_arena *a)
{
    const char *dot = e->service ? e->service + strcspn(e->service, ".") : NULL;
    long pods = e->local_world > 0 && e->world > 0 ? e->world / e->local_world : e->world;

    pods -= e->apart;
    if (e->nodes)
        pb_hosts_expand(h, e->nodes, a, NULL);
    if (e->hosts_file)
        pb_hosts_read(h, e->hosts_file, a, NULL);
    if (e->master)
        pb_hosts_add(h, e->master, a, NULL);
    for (long i = 0; dot && i < pods && i < PODS_MAX; i++)
        pb_hosts_add(h, pb_arena_printf(a, "%.*s-%ld%s", (int)(dot - e->service), e->service, i,
                                        dot), a, NULL);
}
