/*
 * value.h - one cell of a result as JSON or as text.
 *
 * Owns: a struct pb_value_type owns what it found out about a column's type.
 * Threads: one each.
 * Fails: a type without a form here is refused before the first row, by name.
 * Not here: rows, formats (output.h).
 */
#ifndef PB_NODE_SQL_VALUE_H
#define PB_NODE_SQL_VALUE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "host/buf.h"
#include "node/sql/duck.h"

struct pb_value_type {
    int id;      /* enum duck_type_id */
    int storage; /* DECIMAL and ENUM: type of the number that is stored */
    int scale;   /* DECIMAL */
    size_t size; /* ARRAY */
    struct pb_value_type *children; /* LIST, ARRAY, MAP (key, value), STRUCT */
    char **names;                   /* STRUCT; ENUM: its words */
    size_t nchildren, nnames;
};

int pb_value_type_init(struct pb_value_type *t, struct duck_type *type, struct pb_err *err);
void pb_value_type_finish(struct pb_value_type *t);
/* "BIGINT", "VARCHAR[]", "STRUCT(a BIGINT)". */
void pb_value_type_name(const struct pb_value_type *t, struct pb_buf *b);

/* Row `row` of a vector. JSON is always valid; text is a CSV cell before quoting, NULL is "". */
/* A top-level FLOAT or DOUBLE that JSON has no number for, as "nan" or "inf"; false: it is none. */
bool pb_value_special(const struct pb_value_type *t, struct duck_vector *v, uint64_t row,
                      struct pb_buf *b);
void pb_value_json(const struct pb_value_type *t, struct duck_vector *v, uint64_t row,
                   struct pb_buf *b);
void pb_value_text(const struct pb_value_type *t, struct duck_vector *v, uint64_t row,
                   struct pb_buf *b);
/* A JSON string of len bytes of valid UTF-8. */
void pb_value_string(struct pb_buf *b, const char *s, size_t len);

#endif
