/* A ring that ended a node is not read by the next one, which says why. */
#include "node/stores.h"

#include <signal.h>
#include <sys/wait.h>

#include "node/discover/discover.h"
#include "node/watchdog/deaths.h"
#include "node/watchdog/quarantine.h"

static char data_dir[] = "/tmp/aside-test-XXXXXX";

static struct pb_reader open_ring(const char *id)
{
    char path[128];
    struct pb_err err = {0};
    struct pb_reader r;
    int dir;

    snprintf(path, sizeof path, "%s/%s", stores_root, id);
    dir = open(path, O_RDONLY | O_DIRECTORY);
    if (pb_reader_open(&r, dir, "python.t.0.ring", &err) < 0)
        fail_msg("%s", err.msg);
    close(dir);
    return r;
}

static int make(void **state)
{
    int dir;

    if (stores_setup(state) < 0)
        return -1;
    strcpy(data_dir + sizeof data_dir - 7, "XXXXXX");
    for (int i = 0; i < 2; i++) {
        dir = stores_make(i ? "101-5" : "100-5", i ? "pid=101\nstart=5\n" : "pid=100\nstart=5\n");
        stores_ring(dir, "python.t", 1, 10);
        close(dir);
    }
    return mkdtemp(data_dir) ? 0 : -1;
}

static void add(const struct pb_ring_identity *ring, void *arg)
{
    (void)arg;
    pb_quarantine_add(data_dir, ring, "Bus error");
}

/* A server that reads a ring (or has read it) and ends by this signal, and its supervisor. */
static void end_by(int sig, bool while_reading)
{
    struct pb_journal *j = pb_journal_create();
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        struct pb_reader r = open_ring("100-5");

        for (int i = 1; i < 32; i++) /* those of the test runner, which live on */
            signal(i, SIG_DFL);
        pb_deaths_watch(j);
        pb_reader_guard(while_reading ? &r : NULL);
        raise(sig);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status)); /* a sanitizer exits */
    pb_journal_blame(j, 1, "x", add, NULL);
    pb_journal_destroy(j);
}

static bool is_set_aside(void *arg, const struct stat *st, uint64_t created_ns, char *why,
                         size_t cap)
{
    return pb_quarantine_has(arg, &(struct pb_ring_identity){st->st_dev, st->st_ino, created_ns},
                             why, cap);
}

static void clear(void **state)
{
    char command[64];

    stores_teardown(state);
    snprintf(command, sizeof command, "rm -rf %s", data_dir);
    assert_int_equal(system(command), 0);
}

static void expect(const char *why)
{
    struct pb_quarantine *a = pb_quarantine_open(data_dir);
    struct pb_discover_opts o = {.store_dir = stores_root, .set_aside = is_set_aside, .arg = a};
    struct pb_discover *d;
    struct pb_stores *s;
    struct pb_err err = {0};

    assert_int_equal(pb_discover_create(&d, &o, &err), 0);
    s = pb_discover_snapshot(d, 0);
    assert_int_equal(s->nstores, 2);
    assert_int_equal(s->stores[0]->nrings, why ? 0 : 1);
    assert_int_equal(s->stores[1]->nrings, 1); /* a neighbour, never named */
    if (why)
        assert_non_null(strstr(s->stores[0]->troubles, why));
    pb_stores_unref(s);
    pb_discover_destroy(d);
    pb_quarantine_close(a);
}

static void a_ring_that_ended_a_node(void **state)
{
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGABRT};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        make(state);
        expect(NULL);
        end_by(deadly[i], true);
        expect("python.t.0.ring: set aside: it ended a server that read it (Bus error)");
        clear(state);
    }
}

/* A mapped ring of our own is cut off under the node, which lives on and reads what is left. */
static void a_mapped_ring_that_is_cut(void **state)
{
    pid_t pid;
    int status;

    (void)state;
    make(state);
    pid = fork();
    if (pid == 0) {
        struct pb_reader r = open_ring("100-5");
        uint64_t rows[10];
        char path[128];

        for (int i = 1; i < 32; i++)
            signal(i, SIG_DFL);
        pb_deaths_watch(NULL);
        pb_reader_map(&r);
        pb_reader_guard(&r);
        if (!r.map || r.cut ||
            pb_reader_copy(&r, 0, 10, NULL, 0, NULL, rows, NULL) != 10 || r.cut)
            _exit(1);
        snprintf(path, sizeof path, "%s/100-5/python.t.0.ring", stores_root);
        if (truncate(path, 0) < 0 || pb_reader_copy(&r, 0, 10, NULL, 0, NULL, rows, NULL) != 0 ||
            !r.cut || pb_reader_copy(&r, 0, 10, NULL, 0, NULL, rows, NULL) != 0)
            _exit(2);
        pb_reader_close(&r);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    expect("too short");
    clear(state);
}

/* Its head is never looked at again: what is asked is the file, before it is opened. */
static void a_ring_that_ended_a_node_as_it_was_opened(void **state)
{
    char path[128];
    struct stat st;

    (void)state;
    make(state);
    snprintf(path, sizeof path, "%s/100-5/python.t.0.ring", stores_root);
    assert_int_equal(truncate(path, 3), 0);
    assert_int_equal(stat(path, &st), 0);
    add(&(struct pb_ring_identity){st.st_dev, st.st_ino, 0}, NULL);
    expect("python.t.0.ring: set aside: it ended a server that read it (Bus error)");
    clear(state);
}

/* However many were added, the newest counts. */
static void a_list_without_end(void **state)
{
    struct pb_ring_identity ring = {.device = 1};
    struct pb_quarantine *q;
    char why[160];

    (void)state;
    make(state);
    for (ring.inode = 1; ring.inode < 9000; ring.inode++)
        add(&ring, NULL);
    ring.inode--;
    q = pb_quarantine_open(data_dir);
    assert_true(pb_quarantine_has(q, &ring, why, sizeof why));
    ring.inode = 100000;
    assert_false(pb_quarantine_has(q, &ring, why, sizeof why));
    pb_quarantine_close(q);
    clear(state);
}

static void a_node_that_ended_otherwise(void **state)
{
    (void)state;
    make(state);
    end_by(SIGSEGV, false);
    end_by(SIGKILL, true);
    end_by(SIGTERM, true);
    expect(NULL);
    clear(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_that_ended_a_node),
        cmocka_unit_test(a_ring_that_ended_a_node_as_it_was_opened),
        cmocka_unit_test(a_list_without_end),
        cmocka_unit_test(a_mapped_ring_that_is_cut),
        cmocka_unit_test(a_node_that_ended_otherwise),
    };

    return RUN_TESTS(tests);
}
