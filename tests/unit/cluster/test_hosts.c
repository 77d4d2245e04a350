/* Lists of hosts, and what the environment of a job says. */
#include "pb_test.h"

#include <stdio.h>
#include <stdlib.h>

#include "cluster/hostlist.h"
#include "cluster/jobenv.h"

static const char *joined(const struct pb_hosts *h, struct pb_arena *a)
{
    const char *text = "";

    for (size_t i = 0; i < h->n; i++)
        text = pb_arena_printf(a, "%s%s%s", text, i ? " " : "", h->v[i]);
    return text;
}

static void expect(const char *list, const char *wanted)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_hosts h = {0};

    assert_int_equal(pb_hosts_expand(&h, list, &a, NULL), 0);
    assert_string_equal(joined(&h, &a), wanted);
    pb_arena_finish(&a);
}

static void test_expand(void **state)
{
    static const char *const bad[] = {"a[", "a[]", "a[x]", "a[3-1]", "a[1-2", "a[1,]", "a b",
                                      "a[0-99999999]", "a;b", "-v", "a[1-2]$(x)",
                                      "a[1-2147483647999]"};

    (void)state;
    expect("login1", "login1");
    expect("gpu[01-03,07]", "gpu01 gpu02 gpu03 gpu07");
    expect("gpu[1-2],cpu[9-11],x", "gpu1 gpu2 cpu9 cpu10 cpu11 x");
    expect("r[1-2]n[1-2]-ib", "r1n1-ib r1n2-ib r2n1-ib r2n2-ib");
    expect("a,a,a", "a");
    expect("10.0.0.1,[::1]:7707", "10.0.0.1 [::1]:7707");
    expect("", "");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct pb_arena a = PB_ARENA_INIT;
        struct pb_hosts h = {0};

        assert_int_equal(pb_hosts_expand(&h, bad[i], &a, NULL), -1);
        pb_arena_finish(&a);
    }
}

static void test_file(void **state)
{
    char path[] = "/tmp/pb-hosts-XXXXXX";
    FILE *f = fdopen(mkstemp(path), "w");
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_hosts h = {0};

    (void)state;
    fputs("# machines\nnode1 slots=8\n\n  gpu[1-2]  # the fast ones\nnode1\n", f);
    fclose(f);
    assert_int_equal(pb_hosts_read(&h, path, &a, NULL), 0);
    assert_string_equal(joined(&h, &a), "node1 gpu1 gpu2");
    assert_int_equal(pb_hosts_read(&h, "/nowhere/at/all", &a, NULL), -1);
    pb_arena_finish(&a);
    unlink(path);
}

#define ENV(text) (text), sizeof(text) - 1

static void test_torchrun(void **state)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_hosts h = {0};
    struct pb_jobenv e;

    (void)state;
    pb_jobenv_parse(ENV("RANK=5\0WORLD_SIZE=8\0LOCAL_RANK=1\0LOCAL_WORLD_SIZE=2\0"
                        "MASTER_ADDR=node-a\0MASTER_PORT=29500\0TORCHELASTIC_RUN_ID=none\0"
                        "TORCHELASTIC_RESTART_COUNT=3\0"), &a, &e);
    assert_int_equal(e.rank, 5);
    assert_int_equal(e.world, 8);
    assert_int_equal(e.local_world, 2);
    assert_int_equal(e.restarts, 3);
    assert_string_equal(e.key, "node-a:29500");
    pb_jobenv_hosts(&e, &h, &a);
    assert_string_equal(joined(&h, &a), "node-a");
    pb_jobenv_parse(ENV("RANK=-1\0WORLD_SIZE=x\0MASTER_ADDR=fd00::1\0MASTER_PORT=1\0"), &a, &e);
    assert_int_equal(e.rank, -1);
    assert_string_equal(e.key, "[fd00::1]:1");
    pb_arena_finish(&a);
}

static void test_schedulers(void **state)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_hosts h = {0};
    struct pb_jobenv e;

    (void)state;
    pb_jobenv_parse(ENV("SLURM_PROCID=3\0SLURM_NTASKS=4\0SLURM_JOB_ID=4711\0"
                        "SLURM_JOB_NODELIST=gpu[1-2]\0"), &a, &e);
    assert_int_equal(e.rank, 3);
    assert_string_equal(e.key, "slurm 4711");
    assert_string_equal(e.slurm, "4711");
    pb_jobenv_hosts(&e, &h, &a);
    assert_string_equal(joined(&h, &a), "gpu1 gpu2");

    h = (struct pb_hosts){0};
    pb_jobenv_parse(ENV("RANK=2\0WORLD_SIZE=6\0LOCAL_WORLD_SIZE=2\0HOSTNAME=train-1\0"
                        "JOB_COMPLETION_INDEX=1\0MASTER_ADDR=train-0.train-svc\0"
                        "MASTER_PORT=29400\0"), &a, &e);
    pb_jobenv_hosts(&e, &h, &a);
    assert_string_equal(joined(&h, &a), "train-0.train-svc train-1.train-svc train-2.train-svc");

    h = (struct pb_hosts){0};
    pb_jobenv_parse(ENV("OMPI_COMM_WORLD_RANK=1\0OMPI_COMM_WORLD_SIZE=2\0LSB_JOBID=9\0"
                        "LSB_HOSTS=a a b\0"), &a, &e);
    assert_int_equal(e.rank, 1);
    assert_string_equal(e.key, "lsf 9");
    pb_jobenv_hosts(&e, &h, &a);
    assert_string_equal(joined(&h, &a), "a b");
    pb_jobenv_parse("", 0, &a, &e);
    assert_null(e.key);
    assert_int_equal(e.rank, -1);
    pb_arena_finish(&a);
}

struct recorded {
    const char *block;
    size_t len;
    long rank, world, local_world;
    bool scheduled;
    const char *key, *hosts;
};

/* Environments as the launchers make them, as far as they say something of the job. */
static void test_recorded(void **state)
{
    static const struct recorded all[] = {
        /* srun --ntasks-per-node=2 */
        {ENV("SLURM_CLUSTER_NAME=big\0SLURM_JOBID=4711\0SLURM_JOB_ID=4711\0SLURM_JOB_NODELIST="
             "gpu[09-10],login1\0SLURM_JOB_NUM_NODES=3\0SLURM_LAUNCH_NODE_IPADDR=10.1.0.9\0"
             "SLURM_LOCALID=1\0SLURM_NNODES=3\0SLURM_NODEID=1\0SLURM_NODELIST=gpu[09-10],login1\0"
             "SLURM_NPROCS=6\0SLURM_NTASKS=6\0SLURM_NTASKS_PER_NODE=2\0SLURM_PROCID=3\0"
             "SLURM_STEPID=0\0SLURM_STEP_NODELIST=gpu[09-10]\0SLURM_TASKS_PER_NODE=2(x3)\0"),
         3, 6, 2, true, "slurm 4711", "gpu09 gpu10 login1"},
        /* torchrun started by srun: the ranks are torchrun's */
        {ENV("SLURM_JOB_ID=4711\0SLURM_JOB_NODELIST=gpu[1-2]\0SLURM_NTASKS=2\0SLURM_PROCID=1\0"
             "LOCAL_RANK=1\0RANK=9\0GROUP_RANK=1\0ROLE_RANK=9\0LOCAL_WORLD_SIZE=8\0WORLD_SIZE=16\0"
             "MASTER_ADDR=gpu1\0MASTER_PORT=29500\0TORCHELASTIC_RESTART_COUNT=0\0"
             "TORCHELASTIC_RUN_ID=4711\0"),
         9, 16, 8, false, "gpu1:29500", "gpu1 gpu2"},
        /* Kubeflow's PyTorchJob, a worker and a master without torchrun, a rank under it */
        {ENV("HOSTNAME=bert-worker-1\0MASTER_ADDR=bert-master-0\0MASTER_PORT=23456\0"
             "PET_NNODES=3\0PET_NODE_RANK=2\0RANK=2\0WORLD_SIZE=3\0"
             "KUBERNETES_SERVICE_HOST=10.96.0.1\0"),
         2, 3, -1, false, "bert-master-0:23456", "bert-master-0 bert-worker-0 bert-worker-1"},
        {ENV("HOSTNAME=bert-master-0\0MASTER_ADDR=localhost\0MASTER_PORT=23456\0RANK=0\0"
             "WORLD_SIZE=2\0"),
         0, 2, -1, false, "bert-master-0:23456", "bert-master-0 bert-worker-0"},
        {ENV("HOSTNAME=a-master-0-worker-0\0MASTER_ADDR=a-master-0-master-0.team\0"
             "MASTER_PORT=1\0RANK=4\0WORLD_SIZE=8\0LOCAL_WORLD_SIZE=4\0TORCHELASTIC_RUN_ID=x\0"),
         4, 8, 4, false, "a-master-0-master-0.team:1",
         "a-master-0-master-0.team a-master-0-worker-0.team"},
        /* Kubeflow's TrainJob: a JobSet, whose pods are an indexed job */
        {ENV("HOSTNAME=bert-node-0-1\0JOB_COMPLETION_INDEX=1\0PET_MASTER_ADDR=bert-node-0-0.bert\0"
             "MASTER_ADDR=bert-node-0-0.bert\0MASTER_PORT=29400\0RANK=2\0WORLD_SIZE=4\0"
             "LOCAL_WORLD_SIZE=2\0TORCHELASTIC_RUN_ID=none\0"),
         2, 4, 2, false, "bert-node-0-0.bert:29400", "bert-node-0-0.bert bert-node-0-1.bert"},
        /* mpirun of Open MPI 4 and 5, mpiexec of MPICH */
        {ENV("OMPI_COMM_WORLD_RANK=5\0OMPI_COMM_WORLD_SIZE=8\0OMPI_COMM_WORLD_LOCAL_RANK=1\0"
             "OMPI_COMM_WORLD_LOCAL_SIZE=4\0OMPI_MCA_ess_base_jobid=2857435137\0"),
         5, 8, 4, true, "mpi 2857435137", ""},
        {ENV("OMPI_COMM_WORLD_RANK=0\0OMPI_COMM_WORLD_SIZE=2\0PMIX_NAMESPACE=prterun-a-77@1\0"
             "PMIX_RANK=0\0PBS_JOBID=12.pbs\0PBS_NODEFILE=/nowhere/at/all\0"),
         0, 2, -1, true, "pbs 12.pbs", ""},
        {ENV("PMI_RANK=1\0PMI_SIZE=4\0MPI_LOCALRANKID=1\0MPI_LOCALNRANKS=2\0"), 1, 4, 2, true,
         NULL, ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct pb_arena a = PB_ARENA_INIT;
        struct pb_hosts h = {0};
        struct pb_jobenv e;

        pb_jobenv_parse(all[i].block, all[i].len, &a, &e);
        assert_int_equal(e.rank, all[i].rank);
        assert_int_equal(e.world, all[i].world);
        assert_int_equal(e.local_world, all[i].local_world);
        assert_int_equal(e.scheduled, all[i].scheduled);
        assert_string_equal(e.key ? e.key : "none", all[i].key ? all[i].key : "none");
        pb_jobenv_hosts(&e, &h, &a);
        assert_string_equal(joined(&h, &a), all[i].hosts);
        pb_arena_finish(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expand), cmocka_unit_test(test_file),
        cmocka_unit_test(test_torchrun), cmocka_unit_test(test_schedulers),
        cmocka_unit_test(test_recorded)};

    return RUN_TESTS(tests);
}
