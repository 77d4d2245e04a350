/* Many lists that talk to each other by their real messages until all say the same. */
#include "pb_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "cluster/gossip.h"

#define CLUSTER "test"

static struct pb_members *nodes; /* one list for each */
static size_t nnodes, bytes;

static void add_self(struct pb_members *m, int number, uint64_t generation)
{
    struct pb_member self = {.generation = generation, .version = 1, .protocol = 1, .nat = 1};

    snprintf(self.id, sizeof self.id, "%016x", number + 1);
    snprintf(self.host, sizeof self.host, "node-%d", number);
    snprintf(self.at[0], sizeof self.at[0], "10.0.%d.%d:7707", number / 250, number % 250 + 1);
    self.jobs = calloc(1, sizeof *self.jobs);
    self.njobs = 1;
    strcpy(self.jobs->key, "10.0.0.1:29500");
    snprintf(self.jobs->ranks, sizeof self.jobs->ranks, "%d-%d", 8 * number, 8 * number + 7);
    self.jobs->world = 100000;
    pb_members_set_self(m, &self);
}

static void make(size_t n)
{
    nodes = calloc(n, sizeof *nodes);
    nnodes = n;
    bytes = 0;
    for (size_t i = 0; i < n; i++)
        add_self(&nodes[i], (int)i, 1000 + i);
}

static void drop(void)
{
    for (size_t i = 0; i < nnodes; i++)
        pb_members_finish(&nodes[i]);
    free(nodes);
}

static void say(size_t from, size_t to, bool digest, const struct pb_json *want,
                struct pb_arena *a, struct pb_json *ret)
{
    struct pb_gossip_question q = {.cluster = CLUSTER, .from = nodes[from].self, .port = 7707,
                                   .digest = digest, .want = want};
    struct pb_buf question = PB_BUF_INIT, answer = PB_BUF_INIT;
    struct pb_json asked;

    pb_gossip_ask(&question, &nodes[from], &q);
    assert_int_equal(pb_json_parse(a, question.data, question.len, &asked, NULL), 0);
    assert_int_equal(pb_gossip_check(&asked, CLUSTER, NULL), 0);
    pb_gossip_take(&nodes[to], &asked, 1);
    pb_gossip_answer(&answer, &nodes[to], CLUSTER, &asked, "", 5);
    assert_int_equal(pb_json_parse(a, answer.data, answer.len, ret, NULL), 0);
    pb_gossip_take(&nodes[from], ret, 1);
    bytes += question.len + answer.len;
    pb_buf_finish(&question);
    pb_buf_finish(&answer);
}

static void exchange(size_t from, size_t to)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_json answer;
    char sum[24];

    say(from, to, false, NULL, &a, &answer);
    snprintf(sum, sizeof sum, "%016llx", (unsigned long long)pb_members_sum(&nodes[from]));
    if (strcmp(sum, pb_json_str(&answer, "sum", "")) != 0) {
        say(from, to, true, NULL, &a, &answer);
        say(from, to, false, pb_json_get(&answer, "want"), &a, &answer);
        assert_int_equal(pb_members_sum(&nodes[from]), pb_members_sum(&nodes[to]));
    }
    pb_arena_finish(&a);
}

static bool all_equal(void)
{
    for (size_t i = 1; i < nnodes; i++)
        if (pb_members_sum(&nodes[i]) != pb_members_sum(&nodes[0]))
            return false;
    return true;
}

/* Rounds in which each talks to one other, until all agree. */
static int settle(int most)
{
    for (int round = 1; round <= most; round++) {
        for (size_t i = 0; i < nnodes; i++)
            exchange(i, (i + 1 + (size_t)rand() % (nnodes - 1)) % nnodes);
        if (all_equal())
            return round;
    }
    return -1;
}

static void test_spread(void **state)
{
    (void)state;
    srand(11);
    make(64);
    for (size_t i = 1; i < nnodes; i++)
        exchange(i, 0); /* all know one */
    assert_in_range(settle(20), 1, 12);
    assert_int_equal(nodes[17].n, 64);
    assert_string_equal(pb_members_find(&nodes[3], nodes[60].self)->host, "node-60");
    assert_string_equal(pb_members_find(&nodes[3], nodes[60].self)->jobs->ranks, "480-487");
    drop();
}

/* When nothing changes, little is said, however many there are. */
static void test_quiet(void **state)
{
    (void)state;
    srand(12);
    make(200);
    for (size_t i = 1; i < nnodes; i++)
        exchange(i, 0);
    assert_true(settle(30) > 0);
    for (int i = 0; i < 60; i++) /* until the last change was told often enough */
        settle(1);
    bytes = 0;
    for (size_t i = 0; i < nnodes; i++)
        exchange(i, (i + 7) % nnodes);
    assert_true(bytes / nnodes < 400);
    drop();
}

/* One that is said to be gone, and is not, says so itself. */
static void test_refute(void **state)
{
    struct pb_member *it;

    (void)state;
    srand(13);
    make(8);
    for (size_t i = 1; i < nnodes; i++)
        exchange(i, 0);
    assert_true(settle(20) > 0);
    it = pb_members_find(&nodes[2], nodes[5].self);
    pb_member_set_state(it, PB_MEMBER_SUSPECT, 2);
    assert_true(settle(20) > 0);
    for (size_t i = 0; i < nnodes; i++)
        assert_int_equal(pb_members_find(&nodes[i], nodes[5].self)->state, PB_MEMBER_ALIVE);
    assert_true(pb_members_self(&nodes[5])->version > 1);
    drop();
}

/* A liar says the highest number there is about another, who is heard all the same. */
static void test_numbers_used_up(void **state)
{
    struct pb_member *it;

    (void)state;
    srand(15);
    make(4);
    for (size_t i = 1; i < nnodes; i++)
        exchange(i, 0);
    assert_true(settle(20) > 0);
    it = pb_members_find(&nodes[2], nodes[1].self);
    it->version = PB_MEMBER_VERSION_MAX;
    it->told = 0;
    pb_member_set_state(it, PB_MEMBER_GONE, 2);
    assert_true(settle(30) > 0);
    for (size_t i = 0; i < nnodes; i++) {
        assert_int_equal(pb_members_find(&nodes[i], nodes[1].self)->state, PB_MEMBER_ALIVE);
        assert_int_equal(nodes[i].refused, 0);
    }
    drop();
}

/* One that is gone is gone for all, and does not come back by hearsay. */
static void test_gone(void **state)
{
    (void)state;
    srand(14);
    make(9);
    for (size_t i = 1; i < nnodes; i++)
        exchange(i, 0);
    assert_true(settle(20) > 0);
    nnodes = 8; /* the ninth has no power */
    pb_member_set_state(pb_members_find(&nodes[1], nodes[8].self), PB_MEMBER_GONE, 2);
    assert_true(settle(20) > 0);
    assert_int_equal(pb_members_count(&nodes[6]), 8);
    pb_members_forget(&nodes[6], 1000, 10);
    assert_null(pb_members_find(&nodes[6], nodes[8].self));
    assert_true(settle(5) > 0);
    assert_null(pb_members_find(&nodes[6], nodes[8].self));
    nnodes = 9;
    drop();
}

/* Started again at the same address: the old one gives way. */
static void test_restart(void **state)
{
    struct pb_members again = {0};
    struct pb_member copy;

    (void)state;
    make(3);
    for (size_t i = 1; i < nnodes; i++)
        exchange(i, 0);
    add_self(&again, 500, 900000);
    copy = *pb_members_self(&again);
    copy.jobs = NULL;
    copy.njobs = 0;
    strcpy(copy.at[0], pb_members_self(&nodes[2])->at[0]);
    assert_true(pb_members_merge(&nodes[0], &copy, false, 3));
    assert_int_equal(pb_members_find(&nodes[0], nodes[2].self)->state, PB_MEMBER_LEFT);
    assert_string_equal(pb_members_at(&nodes[0], "10.0.0.3:7707")->id, again.self);
    pb_members_finish(&again);
    drop();
}

/* What cannot be is not believed. */
static void test_lies(void **state)
{
    static const char *const lies[] = {
        "{}", "[]", "{\"id\":\"x\"}",
        /* a version that nobody has reached, a start in the next century */
        "{\"id\":\"00000000000000aa\",\"generation\":1,\"version\":1099511627776000,"
        "\"state\":\"alive\",\"protocol\":1}",
        "{\"id\":\"00000000000000aa\",\"generation\":9000000000000000,\"version\":1,"
        "\"state\":\"alive\",\"protocol\":1}",
        /* a rank that its job has no room for */
        "{\"id\":\"00000000000000aa\",\"generation\":1,\"version\":1,\"state\":\"alive\","
        "\"protocol\":1,\"jobs\":[{\"job\":\"j\",\"ranks\":\"0-9\",\"world\":8}]}",
        /* control characters, a name instead of an address, too many of them */
        "{\"id\":\"00000000000000aa\",\"generation\":1,\"version\":1,\"state\":\"alive\","
        "\"protocol\":1,\"host\":\"a\\u001b[2J\"}",
        "{\"id\":\"00000000000000aa\",\"generation\":1,\"version\":1,\"state\":\"alive\","
        "\"protocol\":1,\"at\":[\"evil:80\"]}",
        "{\"id\":\"00000000000000aa\",\"generation\":1,\"version\":1,\"state\":\"alive\","
        "\"protocol\":1,\"at\":[\"1.1.1.1:1\",\"1.1.1.1:2\",\"1.1.1.1:3\",\"1.1.1.1:4\","
        "\"1.1.1.1:5\"]}",
    };
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_json json;

    (void)state;
    make(1);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        const char *text = pb_arena_printf(&a, "{\"members\":[%s]}", lies[i]);

        assert_int_equal(pb_json_parse(&a, text, strlen(text), &json, NULL), 0);
        pb_gossip_take(&nodes[0], &json, 1);
        assert_int_equal(nodes[0].refused, i + 1);
        assert_int_equal(nodes[0].n, 1);
    }
    drop();
    pb_arena_finish(&a);
}

static void test_check(void **state)
{
    static const struct {
        const char *text;
        enum pb_code code;
    } cases[] = {
        {"{\"protocol\":1,\"cluster\":\"test\"}", PB_OK},
        {"{\"protocol\":1,\"cluster\":\"other\"}", PB_DENIED},
        {"{\"protocol\":2,\"cluster\":\"test\"}", PB_DENIED},
        {"{\"cluster\":\"test\"}", PB_USAGE},
        {"{}", PB_USAGE},
    };
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_json json;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pb_err err = {0};

        pb_json_parse(&a, cases[i].text, strlen(cases[i].text), &json, NULL);
        pb_gossip_check(&json, CLUSTER, &err);
        assert_int_equal(err.code, cases[i].code);
    }
    pb_arena_finish(&a);
}

/* The clock of the other is 1 s ahead; the way takes 3 ms there and 1 ms back. */
static void test_clock(void **state)
{
    static const char text[] = "{\"came_ns\":2003000000,\"went_ns\":2004000000}";
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_json json;
    int64_t offset;
    uint64_t error;

    (void)state;
    pb_json_parse(&a, text, strlen(text), &json, NULL);
    assert_true(pb_gossip_clock(&json, 1000000000, 1005000000, &offset, &error));
    assert_int_equal(offset, 1001000000);
    assert_in_range(error, 1000000000 > offset ? 0 : 1000000, 2000001);
    assert_false(pb_gossip_clock(&json, 1000000000, 1000500000, &offset, &error));
    assert_false(pb_gossip_clock(&json, 2, 1, &offset, &error));
    pb_arena_finish(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spread),  cmocka_unit_test(test_quiet),
        cmocka_unit_test(test_refute),  cmocka_unit_test(test_gone),
        cmocka_unit_test(test_numbers_used_up),
        cmocka_unit_test(test_restart), cmocka_unit_test(test_lies),
        cmocka_unit_test(test_check),   cmocka_unit_test(test_clock),
    };

    return RUN_TESTS(tests);
}
