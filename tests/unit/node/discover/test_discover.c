#include "node/stores.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "base/home.h"
#include "node/discover/discover.h"

static struct pb_discover *open_dir(const char *dir)
{
    struct pb_discover_opts o = {.store_dir = dir};
    struct pb_discover *d;
    struct pb_err err = {0};

    assert_int_equal(pb_discover_create(&d, &o, &err), 0);
    return d;
}

static void test_copied_folder_is_dead_and_told_apart_by_meta(void **state)
{
    struct pb_arena a = PB_ARENA_INIT;
    int one = stores_make("77-100", "host=far\nrank=3\nworld_size=8\nstarted_ns=5\npython=3.11\n");
    int two = stores_make("12-5", NULL);
    struct pb_discover *d;
    struct pb_stores *s;

    (void)state;
    stores_ring(one, "python.memory", 1000000000, 10);
    stores_ring(two, "python.memory", 2000000000, 1);
    d = open_dir(stores_root);
    s = pb_discover_snapshot(d, 0);
    assert_int_equal(s->nstores, 2);
    assert_int_equal(s->stores[0]->process.pid, 12);
    assert_int_equal(s->stores[0]->rank, -1);
    assert_string_equal(s->stores[1]->process.id, "77-100");
    assert_string_equal(s->stores[1]->host, "far");
    assert_int_equal(s->stores[1]->rank, 3);
    assert_int_equal(s->stores[1]->world_size, 8);
    assert_false(s->stores[1]->process.live);
    assert_int_equal(s->stores[1]->process.since_ns, 5);
    assert_int_equal(s->stores[1]->nrings, 1);
    assert_string_equal(s->stores[1]->rings[0]->reader.name, "python.memory");
    assert_string_equal(s->stores[1]->rings[0]->store->process.id, "77-100");
    assert_string_equal(pb_store_value(s->stores[1]->meta, "python", &a), "3.11");
    assert_null(pb_store_value(s->stores[1]->meta, "pyth", &a));
    pb_stores_unref(s);
    pb_discover_destroy(d);
    pb_arena_finish(&a);
    close(one);
    close(two);
}

static void test_one_process_folder(void **state)
{
    int dir = stores_make("77-100", "");
    char path[128];
    struct pb_discover *d;
    struct pb_stores *s;

    (void)state;
    stores_ring(dir, "python.memory", 1, 3);
    snprintf(path, sizeof path, "%s/77-100/", stores_root);
    d = open_dir(path);
    s = pb_discover_snapshot(d, 0);
    assert_int_equal(s->nstores, 1);
    assert_int_equal(s->stores[0]->process.start, 100);
    pb_stores_unref(s);
    pb_discover_destroy(d);
    close(dir);
}

/* Whatever a copy is called, its meta says whose it is; a name like a process's says nothing. */
static void test_renamed_copies(void **state)
{
    int one = stores_make("rank 0 of the crash", "pid=77\nstart=100\nrank=0\n");
    int nobody = stores_make("nobody", "host=far\n");
    char path[128], all[64];
    struct pb_err err = {0};
    struct pb_discover_opts o = {.store_dir = path};
    struct pb_discover *d;
    struct pb_stores *s;

    (void)state;
    stores_ring(one, "python.memory", 1, 3);
    stores_ring(nobody, "python.memory", 1, 3);
    snprintf(path, sizeof path, "%s/rank 0 of the crash", stores_root);
    snprintf(all, sizeof all, "%s/2026-11", stores_root);
    d = open_dir(path);
    s = pb_discover_snapshot(d, 0);
    assert_int_equal(s->nstores, 1);
    assert_string_equal(s->stores[0]->process.id, "77-100");
    assert_int_equal(s->stores[0]->ns_pid, 77);
    pb_stores_unref(s);
    pb_discover_destroy(d);
    snprintf(path, sizeof path, "%s/nobody", stores_root);
    assert_int_equal(pb_discover_create(&d, &o, &err), -1);
    assert_non_null(strstr(err.msg, "which process it was"));
    /* A folder of folders: what is none of a process stays out. */
    assert_int_equal(mkdir(all, 0700), 0);
    snprintf(path, sizeof path, "%s/x", all);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/rank 0 of the crash", all);
    assert_int_equal(renameat(one, "../rank 0 of the crash", AT_FDCWD, path), 0);
    d = open_dir(all);
    s = pb_discover_snapshot(d, 0);
    assert_int_equal(s->nstores, 1);
    assert_string_equal(s->stores[0]->process.id, "77-100");
    pb_stores_unref(s);
    pb_discover_destroy(d);
    close(one);
    close(nobody);
}

/* Two nodes with histories of their own look at the same machine. */
static void test_rows_of_other_nodes_are_left_out(void **state)
{
    struct pb_discover_opts o = {.store_dir = stores_root, .data_dir = "/data/mine"};
    int mine = stores_make("5-1", "role=node\ndata=/data/mine\n");
    int other = stores_make("6-1", "role=node\ndata=/data/other\n");
    int plain = stores_make("7-1", "host=far\n");
    struct pb_err err = {0};
    struct pb_discover *d;
    struct pb_stores *s;

    (void)state;
    stores_ring(mine, "system.cpu", 1, 3);
    stores_ring(other, "system.cpu", 1, 3);
    stores_ring(plain, "python.memory", 1, 3);
    assert_int_equal(pb_discover_create(&d, &o, &err), 0);
    s = pb_discover_snapshot(d, 0);
    assert_int_equal(s->nstores, 2);
    assert_string_equal(s->stores[0]->process.id, "5-1");
    assert_string_equal(s->stores[1]->process.id, "7-1");
    pb_stores_unref(s);
    pb_discover_destroy(d);
    close(mine);
    close(other);
    close(plain);
}

static void test_folder_that_is_none(void **state)
{
    struct pb_discover_opts o = {.store_dir = "/nowhere/at/all"};
    struct pb_discover *d = NULL;
    struct pb_err err = {0};

    (void)state;
    assert_int_equal(pb_discover_create(&d, &o, &err), -1);
    assert_int_equal(err.code, PB_NO_TARGET);
}

/* Rings are mapped once; a new table is seen at once; an old snapshot keeps what went away. */
static void test_rings_come_and_go(void **state)
{
    int dir = stores_make("77-100", "pid=77\n");
    struct pb_discover *d = open_dir(stores_root);
    struct pb_stores *first, *second, *third;
    uint64_t from, next;

    (void)state;
    stores_ring(dir, "python.memory", 1, 3);
    first = pb_discover_snapshot(d, 0);
    assert_int_equal(first->stores[0]->nrings, 1);
    stores_ring(dir, "python.a", 1, 5);
    second = pb_discover_snapshot(d, 0);
    assert_int_equal(second->stores[0]->nrings, 2);
    assert_ptr_equal(second->stores[0]->rings[1], first->stores[0]->rings[0]);
    assert_int_not_equal(second->changes, first->changes);
    unlinkat(dir, "python.memory.0.ring", 0);
    third = pb_discover_snapshot(d, 0);
    assert_int_equal(third->stores[0]->nrings, 1);
    assert_string_equal(third->stores[0]->rings[0]->reader.name, "python.a");
    pb_discover_destroy(d);
    pb_reader_range(&first->stores[0]->rings[0]->reader, &from, &next);
    assert_int_equal(next, 3);
    assert_string_equal(first->stores[0]->rings[0]->store->process.id, "77-100");
    pb_stores_unref(first);
    pb_stores_unref(second);
    pb_stores_unref(third);
    close(dir);
}

/* A program may be told its rank after rows of its were read. */
static void test_rank_that_is_known_later(void **state)
{
    int dir = stores_make("77-100", "pid=77\n");
    struct pb_discover *d = open_dir(stores_root);
    struct pb_stores *before, *after;

    (void)state;
    stores_ring(dir, "python.memory", 1, 3);
    before = pb_discover_snapshot(d, 0);
    assert_int_equal(before->stores[0]->rings[0]->rank, -1);
    stores_write(dir, "meta.new", "pid=77\nrank=1\n");
    assert_int_equal(renameat(dir, "meta.new", dir, "meta"), 0);
    after = pb_discover_snapshot(d, 0);
    assert_int_equal(after->stores[0]->rank, 1);
    assert_int_equal(after->stores[0]->rings[0]->rank, 1);
    assert_ptr_equal(after->stores[0]->rings[0], before->stores[0]->rings[0]);
    pb_stores_unref(before);
    pb_stores_unref(after);
    pb_discover_destroy(d);
    close(dir);
}

static void test_nothing_new_is_the_same_snapshot(void **state)
{
    int dir = stores_make("77-100", "pid=77\n");
    struct pb_discover *d = open_dir(stores_root);
    struct pb_stores *first, *second;

    (void)state;
    stores_ring(dir, "python.memory", 1, 3);
    usleep(70000); /* until a change would carry another time */
    first = pb_discover_snapshot(d, 0);
    second = pb_discover_snapshot(d, 0);
    assert_ptr_equal(first, second);
    stores_write(dir, ".status", "agent.state=running\n");
    assert_int_equal(renameat(dir, ".status", dir, "status"), 0);
    pb_stores_unref(second);
    second = pb_discover_snapshot(d, 60000);
    assert_ptr_equal(first, second);
    pb_stores_unref(second);
    second = pb_discover_snapshot(d, 0);
    assert_string_equal(second->stores[0]->status, "agent.state=running\n");
    /* Nothing that SQL would see. */
    assert_int_equal(first->changes, second->changes);
    pb_stores_unref(first);
    pb_stores_unref(second);
    pb_discover_destroy(d);
    close(dir);
}

static void test_what_makes_no_sense_is_left_out_with_a_reason(void **state)
{
    int dir = stores_make("77-100", "pid=77\nrank=many\n");
    char link[128];
    struct pb_discover *d;
    struct pb_stores *s;

    (void)state;
    stores_ring(dir, "python.memory", 1, 3);
    stores_write(dir, "python.bad.0.ring", "not a ring at all");
    assert_int_equal(symlinkat("python.memory.0.ring", dir, "python.link.0.ring"), 0);
    assert_int_equal(mkfifoat(dir, "python.fifo.0.ring", 0600), 0);
    snprintf(link, sizeof link, "%s/78-100", stores_root);
    assert_int_equal(symlink("77-100", link), 0);
    close(stores_make("not-a-process", NULL));
    close(stores_make("79-100", NULL));
    d = open_dir(stores_root);
    s = pb_discover_snapshot(d, 0);
    assert_int_equal(s->nstores, 1);
    assert_int_equal(s->stores[0]->rank, -1);
    assert_int_equal(s->stores[0]->nrings, 1);
    assert_non_null(strstr(s->stores[0]->troubles, "python.bad.0.ring: "));
    assert_non_null(strstr(s->stores[0]->troubles, "python.link.0.ring: "));
    assert_non_null(strstr(s->stores[0]->troubles, "python.fifo.0.ring: "));
    pb_stores_unref(s);
    pb_discover_destroy(d);
    close(dir);
}

static void adopt(void *arg, struct pb_store_ring *ring)
{
    ++*(int *)arg;
    assert_string_equal(ring->store->process.id, "77-100");
    atomic_store(&ring->sealed, 2);
}

static void test_ring_is_adopted_once(void **state)
{
    int dir = stores_make("77-100", "pid=77\n"), calls = 0;
    struct pb_discover_opts o = {.store_dir = stores_root, .adopt = adopt, .arg = &calls};
    struct pb_discover *d;
    struct pb_stores *s;

    (void)state;
    stores_ring(dir, "python.memory", 1, 3);
    assert_int_equal(pb_discover_create(&d, &o, NULL), 0);
    for (int i = 0; i < 3; i++) {
        s = pb_discover_snapshot(d, 0);
        assert_int_equal(atomic_load(&s->stores[0]->rings[0]->sealed), 2);
        pb_stores_unref(s);
    }
    assert_int_equal(calls, 1);
    pb_discover_destroy(d);
    close(dir);
}

static _Atomic bool stopping;

static void *take_and_drop(void *arg)
{
    struct pb_discover *d = arg;
    uint64_t first, next, rows = 0;

    while (!atomic_load(&stopping)) {
        struct pb_stores *s = pb_discover_snapshot(d, 0);

        for (size_t i = 0; i < s->nstores; i++)
            for (size_t k = 0; k < s->stores[i]->nrings; k++) {
                pb_reader_range(&s->stores[i]->rings[k]->reader, &first, &next);
                rows += next - first + s->stores[i]->rings[k]->store->process.start;
            }
        pb_stores_unref(s);
    }
    return (void *)(rows ? arg : NULL);
}

/* Queries come from many threads while processes and tables come and go. */
static void test_many_threads(void **state)
{
    int dir = stores_make("77-100", "pid=77\n");
    struct pb_discover *d = open_dir(stores_root);
    pthread_t threads[3];
    char id[32], path[128];
    void *saw;

    (void)state;
    stores_ring(dir, "python.memory", 1, 3);
    atomic_store(&stopping, false);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_drop, d), 0);
    for (int i = 0; i < 60; i++) {
        int other;

        snprintf(id, sizeof id, "%d-5", 100 + i);
        other = stores_make(id, "");
        stores_ring(other, "python.a", 1, i);
        usleep(500);
        unlinkat(other, "python.a.0.ring", 0);
        unlinkat(other, "meta", 0);
        close(other);
        snprintf(path, sizeof path, "%s/%s", stores_root, id);
        assert_int_equal(rmdir(path), 0);
        stores_write(dir, "status", i % 2 ? "a=1\n" : "a=2\n");
    }
    atomic_store(&stopping, true);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], &saw);
        assert_non_null(saw);
    }
    pb_discover_destroy(d);
    close(dir);
}

static struct pb_store *find(struct pb_stores *s, const char *id)
{
    for (size_t i = 0; i < s->nstores; i++)
        if (strcmp(s->stores[i]->process.id, id) == 0)
            return s->stores[i];
    return NULL;
}

static void write_meta(int dir)
{
    char boot[40], text[80];

    pb_home_boot_id(boot);
    snprintf(text, sizeof text, "boot_id=%s\n", boot);
    stores_write(dir, "meta", text);
}

/* In the real place of this user: a child that lives, one that had its number, and the end. */
static void test_living_process_and_its_end(void **state)
{
    struct pb_discover_opts o = {0};
    struct pb_discover *d, *late;
    struct pb_stores *s, *after;
    siginfo_t info;
    char id[48], other[48], path[PB_HOME_MAX];
    const char *root = access("/dev/shm", W_OK) == 0 ? pb_home_roots[0] : pb_home_roots[1];
    pid_t child = fork();
    uint64_t start;
    int dir, old;

    (void)state;
    if (child == 0) {
        pause();
        _exit(0);
    }
    start = pb_home_start_time(child);
    snprintf(id, sizeof id, "%d-%llu", (int)child, (unsigned long long)start);
    snprintf(other, sizeof other, "%d-%llu", (int)child, (unsigned long long)start - 1);
    dir = pb_home_create(path, root, geteuid(), child, start);
    old = pb_home_create(path, root, geteuid(), child, start - 1);
    assert_true(dir >= 0 && old >= 0);
    write_meta(dir);
    write_meta(old);
    stores_ring(dir, "python.memory", 1, 3);
    stores_ring(old, "python.memory", 1, 3);
    assert_int_equal(pb_discover_create(&d, &o, NULL), 0);
    s = pb_discover_snapshot(d, 0);
    assert_non_null(find(s, id));
    assert_true(find(s, id)->process.live);
    assert_int_equal(find(s, id)->process.until_ns, INT64_MAX);
    assert_int_equal(find(s, id)->process.pid, child);
    assert_non_null(find(s, other));
    assert_false(find(s, other)->process.live);
    kill(child, SIGKILL);
    /* Its parent need not have noticed, neither for who saw it living nor for who comes later. */
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(pb_home_start_time(child), 0);
    assert_int_equal(pb_discover_create(&late, &o, NULL), 0);
    after = pb_discover_snapshot(late, 0);
    assert_false(find(after, id)->process.live);
    pb_stores_unref(after);
    pb_discover_destroy(late);
    after = pb_discover_snapshot(d, 0);
    assert_false(find(after, id)->process.live);
    assert_true(find(after, id)->process.until_ns < INT64_MAX);
    assert_true(find(s, id)->process.live); /* a snapshot does not change */
    assert_ptr_equal(find(after, id)->rings[0], find(s, id)->rings[0]);
    assert_int_not_equal(after->changes, s->changes);
    pb_stores_unref(s);
    pb_stores_unref(after);
    pb_discover_destroy(d);
    waitpid(child, NULL, 0);
    close(dir);
    close(old);
    pb_home_path(path, root, geteuid(), child, start);
    pb_home_erase(path);
    pb_home_path(path, root, geteuid(), child, start - 1);
    pb_home_erase(path);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, stores_setup, stores_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_copied_folder_is_dead_and_told_apart_by_meta),
        IN_FOLDER(test_one_process_folder),
        IN_FOLDER(test_renamed_copies),
        IN_FOLDER(test_rows_of_other_nodes_are_left_out),
        cmocka_unit_test(test_folder_that_is_none),
        IN_FOLDER(test_rings_come_and_go),
        IN_FOLDER(test_rank_that_is_known_later),
        IN_FOLDER(test_nothing_new_is_the_same_snapshot),
        IN_FOLDER(test_what_makes_no_sense_is_left_out_with_a_reason),
        IN_FOLDER(test_ring_is_adopted_once),
        IN_FOLDER(test_many_threads),
        cmocka_unit_test(test_living_process_and_its_end),
    };

    return RUN_TESTS(tests);
}
