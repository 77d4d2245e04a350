/*
 * Functions of the engine that make much out of little, or compare each letter with each: while
 * it is inside one of them the engine cannot be interrupted, and does not count the memory. Each
 * is covered by a macro of the same name that counts first, over all rows of a step together.
 */
#include <math.h>
#include <string.h>

#include "node/sql/internal.h"

/* Bytes, or what takes about as long, in one step of up to PB_DUCK_VECTOR rows. */
#define WIDTH_MAX 67108864.0

enum { VALUES_MAX = 16 };

/* An element of a list counts for more than its bytes: what is done with lists takes longer. */
static const char *const macros[] = {
    "repeat(s BLOB, n BIGINT) AS "
    "system.main.repeat(s, probing_bound(n, octet_length(s) * 4.0 * n)), "
    "(s, n BIGINT) AS system.main.repeat(s, probing_bound(n, len(s) * 4.0 * n))",
    "lpad(s, n BIGINT, fill) AS system.main.lpad(s, probing_bound(n, n * 4.0)::INTEGER, fill)",
    "rpad(s, n BIGINT, fill) AS system.main.rpad(s, probing_bound(n, n * 4.0)::INTEGER, fill)",
    "replace(s, a, b) AS system.main.replace(s, a, left(b, probing_bound(length(b), "
    "strlen(s) / greatest(strlen(a), 1) * strlen(b) * 4.0)))",
    "bitstring(s, n BIGINT) AS "
    "system.main.bitstring(s, probing_bound(n, n * 4.0)::INTEGER)",
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
static void bound(duckdb_function_info info, duckdb_data_chunk input, duckdb_vector output)
{
    const struct pb_duck *d = pb_duck();
    duckdb_vector given = d->data_chunk_get_vector(input, 0);
    duckdb_vector costs = d->data_chunk_get_vector(input, 1);
    const double *cost = d->vector_get_data(costs);
    const uint64_t *there = d->vector_get_validity(costs);
    size_t n = d->data_chunk_get_size(input);
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        if ((!there || there[i / 64] >> (i % 64) & 1) && !(cost[i] <= 0))
            sum += cost[i];
    if (!(sum <= WIDTH_MAX))
        d->scalar_function_set_error(info, "too long: functions make up to 16 million characters "
                                           "or 1 million elements at a time");
    else
        memcpy(d->vector_get_data(output), d->vector_get_data(given), n * sizeof(int64_t));
}

/* Bytes that the numbers in a format ask for; one that an argument would give is too much. */
static double width_of_printf(const char *p, const char *end)
{
    double sum = 0, n;

    while ((p = memchr(p, '%', (size_t)(end - p)))) {
        n = 0;
        for (p++; p < end && memchr("-+ #.$*0123456789", *p, 17); p++) {
            if (*p == '*')
                return INFINITY;
            n = *p >= '0' && *p <= '9' ? n * 10 + (*p - '0') : 0;
            sum += n;
        }
        p += p < end; /* the letter, or the second % */
    }
    return sum;
}

static double width_of_format(const char *p, const char *end)
{
    bool inside = false, spec = false;
    double sum = 0, n = 0;

    for (; p < end; p++) {
        if (!inside) {
            inside = *p == '{' && !(p + 1 < end && p[1] == '{');
            p += *p == '{' && !inside;
            spec = false;
            n = 0;
            continue;
        }
        if (*p == '{')
            return INFINITY;
        n = *p >= '0' && *p <= '9' && spec ? n * 10 + (*p - '0') : 0;
        sum += n;
        spec |= *p == ':';
        inside = *p != '}';
    }
    return sum;
}

static void widths(duckdb_data_chunk input, duckdb_vector output,
                   double (*width)(const char *p, const char *end))
{
    const struct pb_duck *d = pb_duck();
    duckdb_vector formats = d->data_chunk_get_vector(input, 0);
    const duckdb_string_t *text = d->vector_get_data(formats);
    const uint64_t *there = d->vector_get_validity(formats);
    double *out = d->vector_get_data(output);
    size_t n = d->data_chunk_get_size(input);

    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *p = pb_duck_text(&text[i], &len);

        out[i] = !there || there[i / 64] >> (i % 64) & 1 ? width(p, p + len) : 0;
    }
}

static void printf_width(duckdb_function_info info, duckdb_data_chunk input,
                         duckdb_vector output)
{
    (void)info;
    widths(input, output, width_of_printf);
}

static void format_width(duckdb_function_info info, duckdb_data_chunk input,
                         duckdb_vector output)
{
    (void)info;
    widths(input, output, width_of_format);
}

static int add_width(const struct pb_duck *d, duckdb_connection c, const char *name,
                     duckdb_scalar_function_t function)
{
    duckdb_scalar_function f = d->create_scalar_function();
    duckdb_logical_type text = d->create_logical_type(DUCKDB_TYPE_VARCHAR);
    duckdb_logical_type cost = d->create_logical_type(DUCKDB_TYPE_DOUBLE);
    int rc;

    d->scalar_function_set_name(f, name);
    d->scalar_function_add_parameter(f, text);
    d->scalar_function_set_return_type(f, cost);
    d->scalar_function_set_function(f, function);
    rc = d->register_scalar_function(c, f) == 0 ? 0 : -1;
    d->destroy_logical_type(&text);
    d->destroy_logical_type(&cost);
    d->destroy_scalar_function(&f);
    return rc;
}

/* A macro has no "and so on": one for each count of values. */
static int add_formats(const struct pb_duck *d, duckdb_connection c, const char *name)
{
    struct pb_buf b = PB_BUF_INIT;
    duckdb_result r;
    int rc;

    pb_buf_printf(&b, "CREATE MACRO %s", name);
    for (int n = 0; n <= VALUES_MAX; n++) {
        pb_buf_puts(&b, n ? ", (f" : "(f");
        for (int i = 0; i < n; i++)
            pb_buf_printf(&b, ", v%d", i);
        pb_buf_printf(&b, ") AS system.main.%s(left(f, probing_bound(length(f), probing_%s_width(f)"
                          " * 4.0))", name, name);
        for (int i = 0; i < n; i++)
            pb_buf_printf(&b, ", v%d", i);
        pb_buf_putc(&b, ')');
    }
    rc = d->query(c, b.data, &r) == 0 ? 0 : -1;
    d->destroy_result(&r);
    pb_buf_finish(&b);
    return rc;
}

int pb_sql_bounds_register(struct pb_sql *s, duckdb_connection c)
{
    const struct pb_duck *d = s->duck;
    duckdb_scalar_function f = d->create_scalar_function();
    duckdb_logical_type count = d->create_logical_type(DUCKDB_TYPE_BIGINT);
    duckdb_logical_type cost = d->create_logical_type(DUCKDB_TYPE_DOUBLE);
    duckdb_result r;
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
    return rc < 0 || add_width(d, c, "probing_printf_width", printf_width) < 0 ||
                   add_width(d, c, "probing_format_width", format_width) < 0 ||
                   add_formats(d, c, "printf") < 0 || add_formats(d, c, "format") < 0
               ? -1
               : 0;
}
