#include "base/clock.h"
#include "node/stores.h"

#include <stdlib.h>

#include "base/home.h"
#include "node/discover/internal.h"
#include "node/parts.h"
#include "node/serve/serve.h"

static void test_has(void **state)
{
    const struct pb_scope_process v[] = {{.pid = 5, .id = "5-10"}, {.pid = 7, .id = "7-11"}};
    struct pb_scope two = {.processes = v, .nprocesses = 2}, all = {.all = true};

    (void)state;
    assert_true(pb_scope_has_id(&two, "5-10"));
    assert_false(pb_scope_has_id(&two, "5-11"));
    assert_true(pb_scope_has_id(&all, "5-11"));
}

static void test_id(void **state)
{
    static const char *const bad[] = {"", "-", "5", "5-", "-5", "5-6-7", "x-5", "5-x", "0-5",
                                      "99999999999-5", "5-123456789012345678901", " 5-6"};
    uint64_t start;
    pid_t pid;

    (void)state;
    assert_true(pb_process_id_parse("1234-567890", &pid, &start));
    assert_int_equal(pid, 1234);
    assert_int_equal(start, 567890);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(pb_process_id_parse(bad[i], &pid, &start));
}

/* Of another user it is another process, whatever its number. */
static void test_key(void **state)
{
    static const char *const bad[] = {"5", "5-6-", "5-6-7-8", "5--7", "5-6-x", "5-6-99999999999"};
    char key[PB_PROCESS_ID_MAX];
    uint64_t start;
    uid_t uid;
    pid_t pid;

    (void)state;
    pb_process_key(key, 5, 6, geteuid());
    assert_string_equal(key, "5-6");
    pb_process_key(key, 5, 6, 61234);
    assert_string_equal(key, "5-6-61234");
    assert_true(pb_process_key_parse(key, &pid, &start, &uid));
    assert_true(pid == 5 && start == 6 && uid == 61234);
    assert_true(pb_process_key_parse("5-6", &pid, &start, &uid));
    assert_true(uid == geteuid());
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(pb_process_key_parse(bad[i], &pid, &start, &uid));
}

struct asked {
    struct pb_arena a;
    struct pb_scope scope;
    struct pb_err err;
};

static int ask(struct pb_node *n, const char *target, struct asked *q)
{
    memset(q, 0, sizeof *q);
    return pb_node_scope(n, target, &q->a, &q->scope, &q->err);
}

static void test_among_the_dead(void **state)
{
    int first = stores_make("77-100", "started_ns=1000\n");
    int second = stores_make("77-200", "started_ns=3000\n");
    int third = stores_make("78-100", "started_ns=1000\n");
    struct pb_node_opts o = {.store_dir = stores_root};
    struct pb_node *n;
    struct pb_err err = {0};
    struct asked q;

    (void)state;
    stores_ring(first, "python.memory", 1000, 1);
    stores_ring(second, "python.memory", INT64_C(4000000000000000000), 1);
    stores_ring(third, "python.memory", 2000, 1);
    assert_int_equal(pb_node_create(&n, &o, &err), 0);
    assert_int_equal(ask(n, NULL, &q), 0);
    assert_true(q.scope.all);
    pb_arena_finish(&q.a);
    assert_int_equal(ask(n, "77-100", &q), 0);
    assert_int_equal(q.scope.nprocesses, 1);
    assert_string_equal(q.scope.processes[0].id, "77-100");
    assert_false(q.scope.processes[0].live);
    /* What came after the next process of that number began is not its own. */
    assert_int_equal(q.scope.processes[0].until_ns, 3000);
    pb_arena_finish(&q.a);
    assert_int_equal(ask(n, "78,77-200,78-100", &q), 0);
    assert_int_equal(q.scope.nprocesses, 2);
    assert_true(pb_scope_has_id(&q.scope, "77-200"));
    pb_arena_finish(&q.a);
    assert_int_equal(ask(n, "79", &q), -1);
    assert_int_equal(q.err.code, PB_NO_TARGET);
    pb_arena_finish(&q.a);
    assert_int_equal(ask(n, "77,", &q), -1);
    pb_arena_finish(&q.a);
    assert_int_equal(ask(n, "train.py", &q), -1);
    assert_int_equal(q.err.code, PB_NO_TARGET);
    pb_arena_finish(&q.a);
    pb_node_destroy(n);
    close(first);
    close(second);
    close(third);
}

static void test_living_without_a_store(void **state)
{
    struct pb_node_opts o = {0};
    struct pb_node *n;
    struct asked q;
    char id[48], text[24];

    (void)state;
    assert_int_equal(pb_node_create(&n, &o, NULL), 0);
    snprintf(text, sizeof text, "%d", (int)getpid());
    snprintf(id, sizeof id, "%d-%llu", (int)getpid(), (unsigned long long)pb_home_start_time(0));
    assert_int_equal(ask(n, text, &q), 0);
    assert_int_equal(q.scope.nprocesses, 1);
    assert_true(q.scope.processes[0].live);
    assert_string_equal(q.scope.processes[0].id, id);
    assert_int_equal(q.scope.processes[0].until_ns, INT64_MAX);
    assert_true(q.scope.processes[0].since_ns <= pb_clock_wall_ns());
    assert_true(q.scope.processes[0].since_ns > pb_clock_wall_ns() - INT64_C(600000000000));
    pb_arena_finish(&q.a);
    assert_int_equal(ask(n, id, &q), 0);
    pb_arena_finish(&q.a);
    pb_node_destroy(n);
}

static void test_settings_of_the_node(void **state)
{
    struct pb_node_opts o = {0};
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_scope all = {.all = true};
    struct pb_node_value *v;
    struct pb_err err = {0};
    struct pb_node *n;
    size_t count;

    (void)state;
    setenv("PROBING_RETENTION_DAYS", "3", 1);
    setenv("PROBING_SERVE_IDLE", "nonsense", 1);
    assert_int_equal(pb_node_create(&n, &o, NULL), 0);
    assert_int_equal(pb_node_setting(n, PB_SET_RETENTION_DAYS), 3);
    assert_int_equal(pb_node_setting(n, PB_SET_SERVE_IDLE), 300000);
    assert_int_equal(pb_node_set(n, &all, "probing.retention.days", "5", &err), 0);
    assert_int_equal(pb_node_get(n, &all, "retention.days", &a, &v, &count, &err), 0);
    assert_int_equal(count, 1);
    assert_string_equal(v[0].value, "5");
    assert_string_equal(v[0].default_value, "7");
    assert_int_equal(pb_node_get(n, &all, NULL, &a, &v, &count, &err), 0);
    assert_int_equal(count, PB_SETTING_COUNT);
    assert_int_equal(pb_node_set(n, &all, "retention.dayz", "5", &err), -1);
    assert_string_equal(err.msg, "no setting 'retention.dayz'; nearest: retention.days");
    err = (struct pb_err){0};
    assert_int_equal(pb_node_set(n, &all, "retention.days", "-1", &err), -1);
    assert_int_equal(err.code, PB_USAGE);
    assert_int_equal(pb_node_setting(n, PB_SET_RETENTION_DAYS), 5);
    pb_node_destroy(n);
    pb_arena_finish(&a);
}

static void test_data_folder_and_socket(void **state)
{
    char link[128], data[512], same[512], socket[128], other[128];

    (void)state;
    setenv("PROBING_HOME", stores_root, 1);
    assert_int_equal(pb_serve_data_dir(data, sizeof data, NULL), 0);
    assert_string_equal(data, stores_root);
    assert_int_equal(pb_serve_socket_path(socket, sizeof socket, data, NULL), 0);
    snprintf(link, sizeof link, "%s/link", stores_root);
    assert_int_equal(symlink(stores_root, link), 0);
    setenv("PROBING_HOME", link, 1);
    assert_int_equal(pb_serve_data_dir(same, sizeof same, NULL), 0);
    assert_string_equal(same, data);
    /* Also what does not exist yet has one name. */
    snprintf(link, sizeof link, "%s/link/new/home/", stores_root);
    setenv("PROBING_HOME", link, 1);
    assert_int_equal(pb_serve_data_dir(same, sizeof same, NULL), 0);
    snprintf(data, sizeof data, "%s/new/home", stores_root);
    assert_string_equal(same, data);
    assert_int_equal(pb_serve_socket_path(other, sizeof other, same, NULL), 0);
    assert_string_not_equal(socket, other);
    assert_int_equal(pb_serve_data_dir(same, 8, NULL), -1);
    unsetenv("PROBING_HOME");
    setenv("XDG_DATA_HOME", "/x/y", 1);
    assert_int_equal(pb_serve_data_dir(same, sizeof same, NULL), 0);
    assert_string_equal(same, "/x/y/probing");
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, stores_setup, stores_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_has),
        cmocka_unit_test(test_id), cmocka_unit_test(test_key),
        IN_FOLDER(test_among_the_dead),
        cmocka_unit_test(test_living_without_a_store),
        cmocka_unit_test(test_settings_of_the_node),
        IN_FOLDER(test_data_folder_and_socket),
    };

    return RUN_TESTS(tests);
}
