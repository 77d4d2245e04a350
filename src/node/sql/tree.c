#include "node/sql/tree.h"

#include <string.h>
#include <strings.h>

#include "host/text/json_write.h"
#include "node/sql/error.h"
#include "node/sql/internal.h"

/* Runs one of the engine's two functions on a text; its answer is put into the arena. */
static int convert(struct pb_sql *s, struct pb_sql_conn *c, const char *function, const char *text,
                   struct pb_arena *a, const char **ret, struct pb_err *err)
{
    const struct pb_duck *d = s->duck;
    duckdb_prepared_statement p = NULL;
    duckdb_data_chunk chunk = NULL;
    duckdb_result r = {.internal_data = NULL};
    bool ran = false;
    char why[200] = "the engine cannot say what this statement is";

    *ret = NULL;
    if (d->prepare(c->duck, function, &p) == 0 && d->bind_varchar(p, 1, text) == 0) {
        ran = true;
        if (d->execute_prepared(p, &r) == 0)
            chunk = d->fetch_chunk(r);
        else
            pb_sql_plain(d->result_error(&r), why, sizeof why);
    }
    if (chunk && d->data_chunk_get_size(chunk) == 1) {
        duckdb_vector v = d->data_chunk_get_vector(chunk, 0);
        const uint64_t *validity = d->vector_get_validity(v);
        size_t len;
        const char *found = pb_duck_text(d->vector_get_data(v), &len);

        if (!validity || validity[0] & 1)
            *ret = pb_arena_strndup(a, found, len);
    }
    if (chunk)
        d->destroy_data_chunk(&chunk);
    if (ran)
        d->destroy_result(&r);
    if (p)
        d->destroy_prepare(&p);
    return *ret ? 0 : pb_err_set(err, PB_FAIL, "%s", why);
}

const struct pb_json *pb_stmt_node(const struct pb_json *document)
{
    const struct pb_json *all = pb_json_get(document, "statements");

    return all && all->type == PB_J_ARRAY && all->n == 1 ? pb_json_get(&all->items[0], "node")
                                                         : NULL;
}

int pb_stmt_read(struct pb_sql *s, struct pb_sql_conn *c, const char *sql, struct pb_arena *a,
                 struct pb_json *ret, struct pb_err *err)
{
    const char *text;

    if (convert(s, c, "SELECT json_serialize_sql($1::VARCHAR)", sql, a, &text, err) < 0 ||
        pb_json_parse(a, text, strlen(text), ret, err) < 0)
        return -1;
    if (!pb_stmt_node(ret))
        return pb_err_set(err, PB_FAIL, "the engine cannot say what this statement is");
    return 0;
}

int pb_stmt_text(struct pb_sql *s, struct pb_sql_conn *c, const char *node, struct pb_arena *a,
                 const char **ret, struct pb_err *err)
{
    const char *document = pb_arena_printf(
        a, "{\"error\":false,\"statements\":[{\"node\":%s,\"named_param_map\":[]}]}", node);

    return convert(s, c, "SELECT json_deserialize_sql($1::VARCHAR::JSON)", document, a, ret, err);
}

void pb_stmt_write(struct pb_buf *b, const struct pb_json *part, pb_stmt_swap *swap, void *arg)
{
    bool object = part->type == PB_J_OBJECT;
    const char *instead = swap ? swap(part, arg) : NULL;

    if (instead) {
        pb_buf_puts(b, instead);
        return;
    }
    switch (part->type) {
    case PB_J_NULL:
        pb_buf_puts(b, "null");
        break;
    case PB_J_BOOL:
        pb_json_bool(b, part->v.b);
        break;
    case PB_J_INT:
    case PB_J_REAL:
        pb_buf_add(b, part->s, part->len);
        break;
    case PB_J_STRING:
        pb_json_string(b, part->s);
        break;
    case PB_J_ARRAY:
    case PB_J_OBJECT:
        pb_buf_putc(b, object ? '{' : '[');
        for (size_t i = 0; i < part->n; i++) {
            if (object)
                pb_json_key(b, part->items[i].key);
            else if (i)
                pb_buf_putc(b, ',');
            pb_stmt_write(b, &part->items[i], swap, arg);
        }
        pb_buf_putc(b, object ? '}' : ']');
        break;
    }
}

bool pb_stmt_is(const struct pb_json *part, const char *key, const char *value)
{
    return part && part->type == PB_J_OBJECT && strcmp(pb_json_str(part, key, ""), value) == 0;
}

/* The name of an argument is part of what is said: struct_pack(a := x) is not (b := x). */
static bool is_remark(const struct pb_json *member, bool inside)
{
    return strcmp(member->key, "query_location") == 0 ||
           (!inside && strcmp(member->key, "alias") == 0);
}

static const char *last_name(const struct pb_json *ref)
{
    const struct pb_json *names = pb_json_get(ref, "column_names");

    return names && names->n && names->items[names->n - 1].type == PB_J_STRING
               ? names->items[names->n - 1].s
               : "";
}

/* inside: they are parts of what is compared. */
static bool is_same(const struct pb_json *a, const struct pb_json *b, bool inside)
{
    bool object = a->type == PB_J_OBJECT;

    if (a->type != b->type)
        return false;
    if (pb_stmt_is(a, "class", "COLUMN_REF") && pb_stmt_is(b, "class", "COLUMN_REF"))
        return strcasecmp(last_name(a), last_name(b)) == 0 &&
               (!inside || strcmp(pb_json_str(a, "alias", ""), pb_json_str(b, "alias", "")) == 0);
    switch (a->type) {
    case PB_J_NULL:
        return true;
    case PB_J_BOOL:
        return a->v.b == b->v.b;
    case PB_J_INT:
    case PB_J_REAL:
    case PB_J_STRING:
        return a->len == b->len && memcmp(a->s, b->s, a->len) == 0;
    case PB_J_ARRAY:
    case PB_J_OBJECT:
        break;
    }
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        if (object && strcmp(a->items[i].key, b->items[i].key) != 0)
            return false;
        if (!(object && is_remark(&a->items[i], inside)) &&
            !is_same(&a->items[i], &b->items[i], true))
            return false;
    }
    return true;
}

bool pb_stmt_same(const struct pb_json *a, const struct pb_json *b)
{
    return is_same(a, b, false);
}
