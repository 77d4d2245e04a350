/*
 * Functions of the engine that make much out of little, or compare each letter with each: while
 * it is inside one of them the engine cannot be interrupted, and does not count the memory. Each
 * is covered by a macro of the same name that counts first, over all rows of a step together.
 */
#include <string.h>

#include "node/sql/internal.h"

/* Bytes, or what takes about as long, in one step of up to DUCK_VECTOR_SIZE rows. */
#define MOST 67108864.0

/* An element of a list counts for more than its bytes: what is done with lists takes longer. */
static const char *const macros[] = {
    "repeat(s BLOB, n BIGINT) AS "
    "system.main.repeat(s, probing_bound(n, octet_length(s) * 4.0 * n)), "
    "(s, n BIGINT) AS system.main.repeat(s, probing_bound(n, len(s) * 4.0 * n))",
    "lpad(s, n BIGINT, fill) AS system.main.lpad(s, probing_bound(n, n * 4.0)::INTEGER, fill)",
    "rpad(s, n BIGINT, fill) AS system.main.rpad(s, probing_bound(n, n * 4.0)::INTEGER, fill)",
#define TIMES(name, type)                                                                          \
    ", (a " type ", b " type ", step INTERVAL) AS system.main." name                               \
    "(a, b + to_seconds(probing_bound(0, (epoch(b) - epoch(a)) / epoch(step) * 64)), step)"
#define LISTS(name)                                                                                \
    name "(n BIGINT) AS system.main." name "(probing_bound(n, n * 64.0)), "                        \
         "(a BIGINT, b BIGINT) AS system.main." name                                               \
         "(a, probing_bound(b, (b::DOUBLE - a) * 64)), "                                           \
         "(a BIGINT, b BIGINT, step BIGINT) AS system.main." name                                  \
         "(a, probing_bound(b, (b::DOUBLE - a) / step * 64), step)" TIMES(name, "TIMESTAMP")       \
             TIMES(name, "TIMESTAMPTZ")
    LISTS("range"),
    LISTS("generate_series"),
#define RESIZE(name)                                                                               \
    name "(l, n BIGINT) AS system.main." name "(l, probing_bound(n, n * 64.0)), "                  \
         "(l, n BIGINT, fill) AS system.main." name "(l, probing_bound(n, n * 64.0), fill)"
    RESIZE("list_resize"),
    RESIZE("array_resize"),
#define PAIRS "left(b, probing_bound(length(b), length(a) / 4.0 * length(b)))"
    "levenshtein(a, b) AS system.main.levenshtein(a, " PAIRS ")",
    "editdist3(a, b) AS system.main.editdist3(a, " PAIRS ")",
    "damerau_levenshtein(a, b) AS system.main.damerau_levenshtein(a, " PAIRS ")",
    "jaro_similarity(a, b) AS system.main.jaro_similarity(a, " PAIRS "), "
    "(a, b, cut) AS system.main.jaro_similarity(a, " PAIRS ", cut)",
    "jaro_winkler_similarity(a, b) AS system.main.jaro_winkler_similarity(a, " PAIRS "), "
    "(a, b, cut) AS system.main.jaro_winkler_similarity(a, " PAIRS ", cut)",
};

/* The first argument as it is, unless the second ones together are too much. */
static void bound(struct duck_call *info, struct duck_chunk *input, struct duck_vector *output)
{
    const struct pb_duck *d = pb_duck();
    struct duck_vector *given = d->data_chunk_get_vector(input, 0);
    struct duck_vector *costs = d->data_chunk_get_vector(input, 1);
    const double *cost = d->vector_get_data(costs);
    const uint64_t *there = d->vector_get_validity(costs);
    size_t n = d->data_chunk_get_size(input);
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        if ((!there || there[i / 64] >> (i % 64) & 1) && !(cost[i] <= 0))
            sum += cost[i];
    if (!(sum <= MOST))
        d->scalar_function_set_error(info, "too long: functions make up to 16 million characters "
                                           "or 1 million elements at a time");
    else
        memcpy(d->vector_get_data(output), d->vector_get_data(given), n * sizeof(int64_t));
}

int pb_sql_bounds_register(struct pb_sql *s, struct duck_connection *c)
{
    const struct pb_duck *d = s->duck;
    struct duck_scalar_function *f = d->create_scalar_function();
    struct duck_type *count = d->create_logical_type(DUCK_BIGINT);
    struct duck_type *cost = d->create_logical_type(DUCK_DOUBLE);
    struct duck_result r;
    int rc;

    d->scalar_function_set_name(f, "probing_bound");
    d->scalar_function_add_parameter(f, count);
    d->scalar_function_add_parameter(f, cost);
    d->scalar_function_set_return_type(f, count);
    d->scalar_function_set_function(f, bound);
    /* Not to be worked out while the statement is bound: others wait for that. */
    d->scalar_function_set_volatile(f);
    rc = d->register_scalar_function(c, f) == 0 ? 0 : -1;
    d->destroy_logical_type(&count);
    d->destroy_logical_type(&cost);
    d->destroy_scalar_function(&f);
    for (size_t i = 0; i < sizeof macros / sizeof *macros && rc == 0; i++) {
        struct pb_buf b = PB_BUF_INIT;

        pb_buf_printf(&b, "CREATE MACRO %s", macros[i]);
        rc = d->query(c, b.data, &r) == 0 ? 0 : -1;
        d->destroy_result(&r);
        pb_buf_finish(&b);
    }
    return rc;
}
