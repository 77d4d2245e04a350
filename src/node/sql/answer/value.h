/*
 * value.h - one cell of a result as JSON or as text.
 *
 * Owns: a struct pb_value_type owns what it found out about a column's type.
 * Threads: one each.
 * Fails: never. Types that are not common here the engine casts to text first.
 * Not here: rows, formats (output.h).
 */
#ifndef PB_NODE_SQL_ANSWER_VALUE_H
#define PB_NODE_SQL_ANSWER_VALUE_H

#include <stdbool.h>
#include <stddef.h>

#include "host/text/buf.h"
#include "node/sql/duck.h"

struct pb_value_type {
    int id;      /* duckdb_type */
    int storage; /* DECIMAL and ENUM: type of the number that is stored */
    int width, scale; /* DECIMAL */
    size_t size; /* ARRAY */
    struct pb_value_type *children; /* LIST, ARRAY, MAP (key, value), STRUCT */
    char **names;                   /* STRUCT; ENUM: its words */
    size_t nchildren, nnames;
};

void pb_value_type_init(struct pb_value_type *t, duckdb_logical_type type);
void pb_value_type_finish(struct pb_value_type *t);
/* "BIGINT", "VARCHAR[]", "STRUCT(a BIGINT)". */
void pb_value_type_name(const struct pb_value_type *t, struct pb_buf *b);
/* Can a cell of this type be written as it is? Else it must be cast first. */
bool pb_value_type_is_common(const struct pb_value_type *t);
/* The type to cast to: the same one with VARCHAR for whatever is not common. */
void pb_value_type_cast(const struct pb_value_type *t, struct pb_buf *b);

/* Types of all columns of a statement, "BIGINT, VARCHAR". */
void pb_value_types(duckdb_prepared_statement p, struct pb_buf *b);

/* A top-level FLOAT or DOUBLE that JSON has no number for, as "nan" or "inf"; false: it is none. */
bool pb_value_special(const struct pb_value_type *t, duckdb_vector v, uint64_t row,
                      struct pb_buf *b);
/* Row `row` of a vector. JSON is always valid; text is a CSV cell before quoting, NULL is "". */
void pb_value_json(const struct pb_value_type *t, duckdb_vector v, uint64_t row,
                   struct pb_buf *b);
void pb_value_text(const struct pb_value_type *t, duckdb_vector v, uint64_t row,
                   struct pb_buf *b);
/* A JSON string of len bytes of valid UTF-8. */
void pb_value_string(struct pb_buf *b, const char *s, size_t len);

#endif
