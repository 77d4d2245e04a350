/* Columns are called as the user wrote them. */
#include "pb_test.h"

#include "host/text/arena.h"
#include "node/sql/answer/titles.h"

#define ENGINE "-" /* the engine's name stands */

/* expected: titles with | between; NULL: no title is ours. */
static void titles(const char *sql, size_t n, const char *expected)
{
    struct pb_arena a = PB_ARENA_INIT;
    const char **found = pb_titles_find(&a, sql, strlen(sql), n);
    const char *all = "";

    if (expected && !found)
        fail_msg("%s: no titles", sql);
    for (size_t i = 0; found && i < n; i++)
        all = pb_arena_printf(&a, "%s%s%s", all, i ? "|" : "", found[i] ? found[i] : ENGINE);
    if (expected)
        assert_string_equal(all, expected);
    else
        assert_null(found);
    pb_arena_finish(&a);
}

static void expressions_are_called_as_they_were_written(void **state)
{
    (void)state;
    titles("SELECT hour(timestamp), count(*) FROM t", 2, "hour(timestamp)|count(*)");
    titles("select a+b,  a  -\n\t1 , -a, a::int, a[1], 'x', 1.5", 7,
           "a+b|a - 1|-a|a::int|a[1]|'x'|1.5");
    titles("select max(a /* of\nall */ , 2) -- and\n from t", 1, "max(a , 2)");
    titles("select true, null, not a, a is null, a and b, case when a then 1 end", 6,
           "true|null|not a|a is null|a and b|case when a then 1 end");
    titles("select [1, 2], {'a': 1, 'b': 2}, (1, 2), x -> y", 4,
           "[1, 2]|{'a': 1, 'b': 2}|(1, 2)|x -> y");
    titles("select a is distinct from b, mode() within group (order by a) from t", 2,
           "a is distinct from b|mode() within group (order by a)");
    titles("select extract(hour from a), trim(both 'x' from b)", 2,
           "extract(hour from a)|trim(both 'x' from b)");
}

static void names_that_are_there_stay(void **state)
{
    (void)state;
    titles("select a, t.a, \"A b\", python.memory.rss from t", 4, "-|-|-|-");
    titles("select count(*) as n, count(*) n, count(*) \"n n\", a b, 1 x, [1] y", 6, "-|-|-|-|-|-");
    titles("select case when a then 1 end label, n: 1 + 1", 2, "-|-");
    titles("select cast(a as int), cast(a as int) as b", 2, "cast(a as int)|-");
}

static void the_outermost_select_counts(void **state)
{
    (void)state;
    titles("with x as (select count(*) from t) select c * 2 from x", 1, "c * 2");
    titles("from t select count(*)", 1, "count(*)");
    titles("select count(*) union all select 2 + 2", 1, "count(*)");
    titles("select distinct on (a, b) a % 2, b from t", 2, "a % 2|-");
    titles("select (select max(a) from t), 2", 2, "(select max(a) from t)|2");
    titles("select a + 1 where a > 2", 1, "a + 1");
}

static void a_star_takes_what_the_others_leave(void **state)
{
    (void)state;
    titles("select * from t", 3, "-|-|-");
    titles("select count(*) over (), t.*, a * 2 from t", 5, "count(*) over ()|-|-|-|a * 2");
    titles("select max(columns(*)), count(*)", 3, "-|-|count(*)");
    titles("select unnest(a), 1 + 1", 2, "unnest(a)|1 + 1");
    titles("select unnest(a), 1 + 1", 3, "-|-|1 + 1");
    titles("select *, u.*, 1 + 1 from t, u", 5, NULL);
}

static void what_does_not_add_up_is_left_alone(void **state)
{
    (void)state;
    titles("select a + 1, b", 3, NULL);
    titles("select a + 1, b", 1, NULL);
    titles("(select 1 + 1)", 1, NULL);
    titles("values (1 + 1)", 1, NULL);
    titles("describe select 1 + 1", 6, NULL);
    titles("explain select 1 + 1", 1, NULL);
    titles("select", 1, NULL);
    titles("select ,", 2, NULL);
    titles("select )(", 1, NULL);
    titles("", 1, NULL);
    titles("select (a", 1, "(a"); /* the engine has refused such text long before */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expressions_are_called_as_they_were_written),
        cmocka_unit_test(names_that_are_there_stay),
        cmocka_unit_test(the_outermost_select_counts),
        cmocka_unit_test(a_star_takes_what_the_others_leave),
        cmocka_unit_test(what_does_not_add_up_is_left_alone),
    };

    return RUN_TESTS(tests);
}
