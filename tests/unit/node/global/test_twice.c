/* Ranks that several nodes say they run: all are named, and nobody is displaced. */
#include "pb_test.h"

#include <stdio.h>
#include <string.h>

#include "cluster/ranges.h"
#include "node/global/internal.h"

struct cluster {
    struct pb_member v[8];
    struct pb_member_job jobs[8];
    struct pb_peers_list list;
};

static void add(struct cluster *c, const char *host, const char *key, const char *ranks,
                enum pb_member_state state)
{
    struct pb_member *m = &c->v[c->list.n];
    struct pb_member_job *j = &c->jobs[c->list.n];

    *m = (struct pb_member){.state = state, .nat = 1, .jobs = j, .njobs = 1};
    snprintf(m->host, sizeof m->host, "%s", host);
    snprintf(m->at[0], sizeof m->at[0], "10.0.0.%zu:7707", ++c->list.n);
    snprintf(j->key, sizeof j->key, "%s", key);
    snprintf(j->script, sizeof j->script, "train.py");
    snprintf(j->ranks, sizeof j->ranks, "%s", ranks);
    c->list.v = c->v;
}

static void expect(const struct cluster *c, const char *ranks, const char *job, const char *wanted)
{
    const struct pb_global_scope w = {.ranks = ranks, .job = job};
    struct pb_arena a = PB_ARENA_INIT;
    const char *said = pb_global_twice(&c->list, &w, &a);

    if (wanted)
        assert_string_equal(said ? said : "nothing", wanted);
    else
        assert_null(said);
    pb_arena_finish(&a);
}

static void test_claims(void **state)
{
    struct cluster c = {0};

    (void)state;
    expect(&c, NULL, NULL, NULL);
    add(&c, "node-a", "10.0.0.1:29500", "0-7", PB_MEMBER_ALIVE);
    add(&c, "node-b", "10.0.0.1:29500", "8-15", PB_MEMBER_ALIVE);
    expect(&c, NULL, NULL, NULL);
    add(&c, "node-a", "10.0.0.1:29500", "3,6-9", PB_MEMBER_SUSPECT);
    expect(&c, NULL, NULL, "ranks 3,6-9 of train.py at node-a (10.0.0.1:7707), node-b "
                           "(10.0.0.2:7707), node-a (10.0.0.3:7707)");
    expect(&c, "3", NULL, "rank 3 of train.py at node-a (10.0.0.1:7707), node-a (10.0.0.3:7707)");
    expect(&c, "0-2,10", NULL, NULL);
    expect(&c, PB_RANGES_ALL, "train", "ranks 3,6-9 of train.py at node-a (10.0.0.1:7707), node-b "
                                       "(10.0.0.2:7707), node-a (10.0.0.3:7707)");
    expect(&c, NULL, "other", NULL);
}

/* A rank has moved when its old node is gone; another job has ranks of its own. */
static void test_no_claims(void **state)
{
    struct cluster c = {0};

    (void)state;
    add(&c, "node-a", "10.0.0.1:29500", "0-7", PB_MEMBER_GONE);
    add(&c, "node-b", "10.0.0.1:29500", "0-7", PB_MEMBER_ALIVE);
    add(&c, "node-c", "10.0.0.1:29600", "0-7", PB_MEMBER_ALIVE);
    add(&c, "node-d", "10.0.0.1:29500", "0-7", PB_MEMBER_LEFT);
    add(&c, "node-e", "10.0.0.1:29500", "", PB_MEMBER_ALIVE);
    add(&c, "node-f", "10.0.0.1:29500", "no ranks", PB_MEMBER_ALIVE);
    expect(&c, NULL, NULL, NULL);
}

/* Whose master is "localhost" on each machine runs a job on each: said where it is asked for. */
static void test_own_masters(void **state)
{
    struct cluster c = {0};

    (void)state;
    add(&c, "node-a", "localhost:29500", "0-1", PB_MEMBER_ALIVE);
    add(&c, "node-b", "localhost:29500", "0-1", PB_MEMBER_ALIVE);
    expect(&c, NULL, NULL, NULL);
    expect(&c, "1-2", NULL, "rank 1 of train.py at node-a (10.0.0.1:7707), node-b "
                            "(10.0.0.2:7707)");
}

static void test_long(void **state)
{
    struct pb_global_scope w = {0};
    struct pb_arena a = PB_ARENA_INIT;
    struct cluster c = {0};
    char ranks[PB_MEMBER_RANKS] = "0";
    const char *said;

    (void)state;
    for (size_t n = 1; n < 100; n++)
        snprintf(ranks + strlen(ranks), sizeof ranks - strlen(ranks), ",%zu", 2 * n);
    for (int i = 0; i < 6; i++)
        add(&c, "node", "10.0.0.1:29500", i < 5 ? "1-2" : "2", PB_MEMBER_ALIVE);
    expect(&c, NULL, NULL, "ranks 1-2 of train.py at node (10.0.0.1:7707), node (10.0.0.2:7707), "
                           "node (10.0.0.3:7707), node (10.0.0.4:7707) and 2 more");
    add(&c, "node", "10.0.0.1:29500", ranks, PB_MEMBER_ALIVE);
    add(&c, "node", "10.0.0.1:29500", ranks, PB_MEMBER_ALIVE);
    said = pb_global_twice(&c.list, &w, &a);
    assert_non_null(said);
    assert_true(strlen(said) < 320);
    pb_arena_finish(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_claims), cmocka_unit_test(test_no_claims),
        cmocka_unit_test(test_own_masters), cmocka_unit_test(test_long)};

    return RUN_TESTS(tests);
}
