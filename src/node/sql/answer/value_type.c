#include <stdlib.h>
#include <string.h>

#include "host/text/alloc.h"
#include "node/sql/text/text.h"
#include "node/sql/answer/value.h"

static void *zeroed(size_t n, size_t size)
{
    void *p = pb_alloc_resize(NULL, n ? n * size : 1);

    memset(p, 0, n * size);
    return p;
}

/* As SQL writes them; nested ones are put together below, what is not here is never common. */
static const char *const names[] = {
    [DUCKDB_TYPE_BOOLEAN] = "BOOLEAN",
    [DUCKDB_TYPE_TINYINT] = "TINYINT",
    [DUCKDB_TYPE_SMALLINT] = "SMALLINT",
    [DUCKDB_TYPE_INTEGER] = "INTEGER",
    [DUCKDB_TYPE_BIGINT] = "BIGINT",
    [DUCKDB_TYPE_UTINYINT] = "UTINYINT",
    [DUCKDB_TYPE_USMALLINT] = "USMALLINT",
    [DUCKDB_TYPE_UINTEGER] = "UINTEGER",
    [DUCKDB_TYPE_UBIGINT] = "UBIGINT",
    [DUCKDB_TYPE_FLOAT] = "FLOAT",
    [DUCKDB_TYPE_DOUBLE] = "DOUBLE",
    [DUCKDB_TYPE_TIMESTAMP] = "TIMESTAMP",
    [DUCKDB_TYPE_DATE] = "DATE",
    [DUCKDB_TYPE_TIME] = "TIME",
    [DUCKDB_TYPE_INTERVAL] = "INTERVAL",
    [DUCKDB_TYPE_HUGEINT] = "HUGEINT",
    [DUCKDB_TYPE_VARCHAR] = "VARCHAR",
    [DUCKDB_TYPE_BLOB] = "BLOB",
    [DUCKDB_TYPE_DECIMAL] = "DECIMAL",
    [DUCKDB_TYPE_TIMESTAMP_S] = "TIMESTAMP_S",
    [DUCKDB_TYPE_TIMESTAMP_MS] = "TIMESTAMP_MS",
    [DUCKDB_TYPE_TIMESTAMP_NS] = "TIMESTAMP_NS",
    [DUCKDB_TYPE_ENUM] = "ENUM",
    [DUCKDB_TYPE_UUID] = "UUID",
    [DUCKDB_TYPE_UNION] = "UNION",
    [DUCKDB_TYPE_BIT] = "BIT",
    [DUCKDB_TYPE_TIME_TZ] = "TIMETZ",
    [DUCKDB_TYPE_TIMESTAMP_TZ] = "TIMESTAMPTZ",
    [DUCKDB_TYPE_UHUGEINT] = "UHUGEINT",
    [DUCKDB_TYPE_BIGNUM] = "BIGNUM",
    [DUCKDB_TYPE_SQLNULL] = "NULL",
    [DUCKDB_TYPE_TIME_NS] = "TIME_NS",
    [DUCKDB_TYPE_GEOMETRY] = "GEOMETRY",
    [DUCKDB_TYPE_VARIANT] = "VARIANT",
};

static const char *name_of(int id)
{
    const char *name = id >= 0 && (size_t)id < sizeof names / sizeof *names ? names[id] : NULL;

    return name ? name : "?";
}

static void init_child(struct pb_value_type *t, size_t i, duckdb_logical_type child)
{
    pb_value_type_init(&t->children[i], child);
    pb_duck()->destroy_logical_type(&child);
}

static void init_struct(struct pb_value_type *t, duckdb_logical_type type)
{
    const struct pb_duck *d = pb_duck();

    t->nchildren = t->nnames = d->struct_type_child_count(type);
    t->children = zeroed(t->nchildren, sizeof *t->children);
    t->names = zeroed(t->nchildren, sizeof *t->names);
    for (size_t i = 0; i < t->nchildren; i++) {
        t->names[i] = d->struct_type_child_name(type, i);
        init_child(t, i, d->struct_type_child_type(type, i));
    }
}

static void init_nested(struct pb_value_type *t, duckdb_logical_type type)
{
    const struct pb_duck *d = pb_duck();

    t->nchildren = t->id == DUCKDB_TYPE_MAP ? 2 : 1;
    t->children = zeroed(t->nchildren, sizeof *t->children);
    if (t->id == DUCKDB_TYPE_LIST) {
        init_child(t, 0, d->list_type_child_type(type));
    } else if (t->id == DUCKDB_TYPE_ARRAY) {
        t->size = d->array_type_array_size(type);
        init_child(t, 0, d->array_type_child_type(type));
    } else {
        init_child(t, 0, d->map_type_key_type(type));
        init_child(t, 1, d->map_type_value_type(type));
    }
}

static void init_enum(struct pb_value_type *t, duckdb_logical_type type)
{
    const struct pb_duck *d = pb_duck();

    t->storage = d->enum_internal_type(type);
    t->nnames = d->enum_dictionary_size(type);
    t->names = zeroed(t->nnames, sizeof *t->names);
    for (size_t i = 0; i < t->nnames; i++)
        t->names[i] = d->enum_dictionary_value(type, i);
}

void pb_value_type_init(struct pb_value_type *t, duckdb_logical_type type)
{
    const struct pb_duck *d = pb_duck();

    *t = (struct pb_value_type){.id = (int)d->get_type_id(type)};
    switch (t->id) {
    case DUCKDB_TYPE_LIST:
    case DUCKDB_TYPE_ARRAY:
    case DUCKDB_TYPE_MAP:
        init_nested(t, type);
        break;
    case DUCKDB_TYPE_STRUCT:
        init_struct(t, type);
        break;
    case DUCKDB_TYPE_DECIMAL:
        t->storage = (int)d->decimal_internal_type(type);
        t->width = d->decimal_width(type);
        t->scale = d->decimal_scale(type);
        break;
    case DUCKDB_TYPE_ENUM:
        init_enum(t, type);
        break;
    }
}

bool pb_value_type_is_common(const struct pb_value_type *t)
{
    switch (t->id) {
    case DUCKDB_TYPE_INTERVAL:
    case DUCKDB_TYPE_UUID:
    case DUCKDB_TYPE_UNION:
    case DUCKDB_TYPE_BIT:
    case DUCKDB_TYPE_TIME_TZ:
        return false;
    }
    for (size_t i = 0; i < t->nchildren; i++)
        if (!pb_value_type_is_common(&t->children[i]))
            return false;
    return t->id <= DUCKDB_TYPE_ARRAY || t->id == DUCKDB_TYPE_SQLNULL;
}

void pb_value_type_finish(struct pb_value_type *t)
{
    for (size_t i = 0; i < t->nnames; i++)
        pb_duck()->free(t->names[i]);
    for (size_t i = 0; i < t->nchildren; i++)
        pb_value_type_finish(&t->children[i]);
    free(t->names);
    free(t->children);
    *t = (struct pb_value_type){0};
}

static void put_leaf(const struct pb_value_type *t, struct pb_buf *b, bool cast)
{
    if (cast && (t->id == DUCKDB_TYPE_ENUM || !pb_value_type_is_common(t)))
        pb_buf_puts(b, "VARCHAR");
    else if (cast && t->id == DUCKDB_TYPE_DECIMAL)
        pb_buf_printf(b, "DECIMAL(%d,%d)", t->width, t->scale);
    else
        pb_buf_puts(b, cast && t->id == DUCKDB_TYPE_SQLNULL ? "VARCHAR" : name_of(t->id));
}

static void put_type(const struct pb_value_type *t, struct pb_buf *b, bool cast)
{
    switch (t->id) {
    case DUCKDB_TYPE_LIST:
        put_type(&t->children[0], b, cast);
        pb_buf_puts(b, "[]");
        return;
    case DUCKDB_TYPE_ARRAY:
        put_type(&t->children[0], b, cast);
        pb_buf_printf(b, "[%zu]", t->size);
        return;
    case DUCKDB_TYPE_MAP:
        pb_buf_puts(b, "MAP(");
        put_type(&t->children[0], b, cast);
        pb_buf_puts(b, ", ");
        put_type(&t->children[1], b, cast);
        pb_buf_putc(b, ')');
        return;
    case DUCKDB_TYPE_STRUCT:
        pb_buf_puts(b, "STRUCT(");
        for (size_t i = 0; i < t->nchildren; i++) {
            pb_buf_puts(b, i ? ", " : "");
            if (cast)
                pb_sql_ident(b, t->names[i]);
            else
                pb_buf_puts(b, t->names[i]);
            pb_buf_putc(b, ' ');
            put_type(&t->children[i], b, cast);
        }
        pb_buf_putc(b, ')');
        return;
    default:
        put_leaf(t, b, cast);
    }
}

void pb_value_type_name(const struct pb_value_type *t, struct pb_buf *b)
{
    put_type(t, b, false);
}

void pb_value_type_cast(const struct pb_value_type *t, struct pb_buf *b)
{
    put_type(t, b, true);
}

void pb_value_types(duckdb_prepared_statement p, struct pb_buf *b)
{
    const struct pb_duck *d = pb_duck();

    for (uint64_t i = 0; i < d->prepared_statement_column_count(p); i++) {
        duckdb_logical_type type = d->prepared_statement_column_logical_type(p, i);
        struct pb_value_type t;

        pb_buf_puts(b, i ? ", " : "");
        pb_value_type_init(&t, type);
        if (pb_value_type_is_common(&t))
            pb_value_type_cast(&t, b);
        else
            pb_value_type_name(&t, b);
        pb_value_type_finish(&t);
        d->destroy_logical_type(&type);
    }
}
