/* Units of columns: only where they are sure, and the name does not say them. */
#include "pb_test.h"

#include "node/sql/answer/units.h"

/* Of table python.t: allocated (MB), step_ms (ms), gpu_util (%), n; of python.u: allocated (B). */
static void build(struct pb_catalog *c)
{
    struct pb_catalog_table *t = pb_catalog_add(c, "python.t", "", PB_FROM_RING);

    pb_catalog_add_column(c, t, "allocated", PB_REAL, "MB", "");
    pb_catalog_add_column(c, t, "step_ms", PB_REAL, "ms", "");
    pb_catalog_add_column(c, t, "gpu_util", PB_REAL, "%", "");
    pb_catalog_add_column(c, t, "n", PB_INT, "", "");
    t = pb_catalog_add(c, "python.u", "", PB_FROM_RING);
    pb_catalog_add_column(c, t, "allocated", PB_REAL, "B", "");
}

/* unit: NULL for none. */
static void check(const char *sql, const char *name, const char *unit)
{
    struct pb_catalog c = {0};
    struct pb_units u;
    const char *found;

    build(&c);
    pb_units_init(&u, &c, sql, strlen(sql));
    found = pb_units_of(&u, name);
    if ((found == NULL) != (unit == NULL) || (unit && strcmp(found, unit) != 0))
        fail_msg("%s: %s is in %s", sql, name, found ? found : "nothing");
    pb_catalog_finish(&c);
}

static void plain_columns(void **state)
{
    (void)state;
    check("SELECT allocated FROM python.t", "allocated", "MB");
    check("select distinct n, t.allocated from python.t t where n > 3", "allocated", "MB");
    check("SELECT * FROM python.t ORDER BY allocated", "allocated", "MB");
    check("SELECT t.*, 1 FROM python.t t", "gpu_util", "%");
    check("SELECT max(allocated), avg(gpu_util) FROM python.t", "max(allocated)", "MB");
    check("SELECT max(allocated), avg(gpu_util) FROM python.t", "avg(gpu_util)", "%");
}

static void names_that_say_it(void **state)
{
    (void)state;
    check("SELECT step_ms, n FROM python.t", "step_ms", NULL);
    check("SELECT step_ms, n FROM python.t", "n", NULL);
    check("SELECT avg(step_ms) FROM python.t", "avg(step_ms)", NULL);
}

static void what_is_not_sure(void **state)
{
    (void)state;
    check("SELECT allocated * 1024 AS allocated FROM python.t", "allocated", NULL);
    check("SELECT allocated / n allocated FROM python.t", "allocated", NULL);
    check("SELECT *, n AS allocated FROM python.t", "allocated", NULL);
    check("SELECT allocated FROM (SELECT n AS allocated FROM python.t)", "allocated", NULL);
    check("WITH x AS (SELECT 1 AS allocated) SELECT allocated FROM x, python.t", "allocated", NULL);
    check("SELECT t.allocated FROM python.t t, python.u", "allocated", NULL);
    check("SELECT count(allocated) FROM python.t", "count(allocated)", NULL);
    check("SELECT max(allocated * 2) FROM python.t", "max(allocated * 2)", NULL);
    check("SELECT n, allocated FROM python.t UNION ALL SELECT 1, 2", "allocated", NULL);
    check("SELECT 1", "1", NULL);
    check("", "allocated", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_columns),
        cmocka_unit_test(names_that_say_it),
        cmocka_unit_test(what_is_not_sure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
