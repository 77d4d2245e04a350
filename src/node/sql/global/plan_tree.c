/* What the planner of global statements wants to know of a tree. */
#include <string.h>
#include <strings.h>

#include "host/text/json_write.h"
#include "node/sql/global/plan.h"

const char *pb_plan_alias(const struct pb_json *ref)
{
    const char *alias = pb_json_str(ref, "alias", "");

    return *alias ? alias : pb_json_str(ref, "table_name", "");
}

static bool is_cte(const struct pb_plan *p, const char *name)
{
    for (size_t i = 0; i < p->nctes; i++)
        if (strcasecmp(p->ctes[i], name) == 0)
            return true;
    return false;
}

struct pb_plan_table *pb_plan_table(struct pb_plan *p, const struct pb_json *ref)
{
    const char *schema = pb_json_str(ref, "schema_name", "");
    const char *name = pb_json_str(ref, "table_name", "");
    bool bare = !*schema || strcasecmp(schema, "main") == 0;
    const char *full = bare ? name : pb_arena_printf(p->arena, "%s.%s", schema, name);

    if (bare && is_cte(p, name))
        return NULL;
    for (size_t i = 0; i < p->ntables; i++)
        if (strcasecmp(p->tables[i].name, full) == 0)
            return &p->tables[i];
    return NULL;
}

bool pb_plan_has_column(const struct pb_plan_table *t, const char *name)
{
    for (size_t i = 0; i < t->ncolumns; i++)
        if (strcasecmp(t->columns[i], name) == 0)
            return true;
    return false;
}

bool pb_plan_is_aggregate(const struct pb_plan *p, const struct pb_json *part)
{
    const char *name = pb_json_str(part, "function_name", "");

    return pb_stmt_is(part, "class", "FUNCTION") && *name &&
           strstr(p->aggregates, pb_arena_printf(p->arena, " %s ", name));
}

bool pb_plan_is_nested(const struct pb_plan *p, const struct pb_json *part)
{
    (void)p;
    return pb_stmt_is(part, "class", "SUBQUERY") || pb_stmt_is(part, "class", "WINDOW") ||
           pb_stmt_is(part, "class", "POSITIONAL_REFERENCE") || pb_stmt_is(part, "class", "LAMBDA");
}

bool pb_plan_any(const struct pb_plan *p, const struct pb_json *part, pb_plan_test *test)
{
    if (part->type != PB_J_OBJECT && part->type != PB_J_ARRAY)
        return false;
    if (part->type == PB_J_OBJECT && test(p, part))
        return true;
    for (size_t i = 0; i < part->n; i++)
        if (pb_plan_any(p, &part->items[i], test))
            return true;
    return false;
}

/* "x" or "t.x" of this very table. "s.t.x" may be of another: two schemas, one name. */
static bool is_column_of(const struct pb_json *ref, const struct pb_plan_table *t,
                         const char *alias)
{
    const struct pb_json *names = pb_json_get(ref, "column_names");

    if (!names || !names->n || names->items[names->n - 1].type != PB_J_STRING ||
        !pb_plan_has_column(t, names->items[names->n - 1].s))
        return false;
    return names->n == 1 || (names->n == 2 && names->items[0].type == PB_J_STRING &&
                             strcasecmp(names->items[0].s, alias) == 0);
}

/* Another value at each call, or of this connection alone. */
static bool is_volatile(const struct pb_plan *p, const struct pb_json *part)
{
    static const char names[] = " random uuid uuidv4 uuidv7 gen_random_uuid nextval currval "
                                "setseed getvariable current_setting txid_current current_database "
                                "current_schema current_query version ";

    const char *name = pb_json_str(part, "function_name", "");

    return pb_stmt_is(part, "class", "FUNCTION") && *name &&
           strstr(names, pb_arena_printf(p->arena, " %s ", name));
}

bool pb_plan_is_local(const struct pb_plan *p, const struct pb_json *part,
                      const struct pb_plan_table *t, const char *alias)
{
    /* No COLLATE: how texts are compared does not travel with them. */
    static const char *const plain[] = {"COLUMN_REF", "CONSTANT", "COMPARISON", "CONJUNCTION",
                                        "FUNCTION",   "CAST",     "OPERATOR",   "BETWEEN",
                                        "CASE"};
    const char *class = part->type == PB_J_OBJECT ? pb_json_str(part, "class", NULL) : NULL;
    bool fits = !class;

    if (class) {
        for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
            fits |= strcmp(class, plain[i]) == 0;
        if (strcmp(class, "COLUMN_REF") == 0)
            return is_column_of(part, t, alias);
        if (strcmp(class, "CONSTANT") == 0)
            return true;
        if (pb_plan_is_aggregate(p, part) || is_volatile(p, part))
            return false;
    }
    for (size_t i = 0; fits && (part->type == PB_J_OBJECT || part->type == PB_J_ARRAY) &&
                       i < part->n;
         i++)
        fits = pb_plan_is_local(p, &part->items[i], t, alias);
    return fits;
}

bool pb_plan_is_empty(const struct pb_json *object, const char *key)
{
    const struct pb_json *v = pb_json_get(object, key);

    return !v || v->type == PB_J_NULL || (v->type == PB_J_ARRAY && !v->n);
}

bool pb_plan_is_plain(const struct pb_json *ref)
{
    return pb_plan_is_empty(ref, "sample") && pb_plan_is_empty(ref, "column_name_alias") &&
           pb_plan_is_empty(ref, "at_clause");
}

/* A view that filters and computes, row by row, and nothing else. */
static bool is_by_row(struct pb_plan *p, struct pb_plan_table *view)
{
    struct pb_json tree;
    const struct pb_json *node, *ctes;
    struct pb_err ignored = {0};
    const struct pb_plan_table *below;

    if (view->known_by_row)
        return view->by_row;
    view->known_by_row = true; /* a view over itself ends here */
    if (view->odd ||
        pb_stmt_read(p->sql, p->conn, view->sql, p->arena, &tree, &ignored) < 0)
        return false;
    node = pb_stmt_node(&tree);
    ctes = pb_json_get(pb_json_get(node, "cte_map"), "map");
    if (!pb_stmt_is(node, "type", "SELECT_NODE") || (ctes && ctes->n) ||
        !pb_plan_is_empty(node, "modifiers") || !pb_plan_is_empty(node, "group_expressions") ||
        !pb_plan_is_empty(node, "having") || !pb_plan_is_empty(node, "qualify") ||
        !pb_plan_is_empty(node, "sample") ||
        pb_plan_any(p, node, pb_plan_is_nested) || pb_plan_any(p, node, pb_plan_is_aggregate))
        return false;
    below = pb_plan_single(p, node);
    view->by_row = below != NULL;
    return view->by_row;
}

struct pb_plan_table *pb_plan_single(struct pb_plan *p, const struct pb_json *select)
{
    const struct pb_json *from = pb_json_get(select, "from_table");
    struct pb_plan_table *t;

    if (!pb_stmt_is(from, "type", "BASE_TABLE") || !pb_plan_is_plain(from))
        return NULL;
    t = pb_plan_table(p, from);
    return t && (t->source != PB_FROM_VIEW || is_by_row(p, t)) ? t : NULL;
}

struct renaming {
    const struct pb_json *ref;
    const char *name, *alias;
};

static const char *rename_part(const struct pb_json *part, void *arg)
{
    const struct renaming *r = arg;

    if (!part->key || part < r->ref->items || part >= r->ref->items + r->ref->n)
        return NULL;
    return strcmp(part->key, "table_name") == 0     ? r->name
           : strcmp(part->key, "alias") == 0        ? r->alias
           : strcmp(part->key, "schema_name") == 0  ? "\"\""
           : strcmp(part->key, "catalog_name") == 0 ? "\"\""
                                                    : NULL;
}

static const char *quoted(struct pb_plan *p, const char *text)
{
    struct pb_buf b = PB_BUF_INIT;
    const char *copy;

    pb_json_string(&b, text);
    copy = pb_arena_strdup(p->arena, b.data);
    pb_buf_finish(&b);
    return copy;
}

const char *pb_plan_rename(struct pb_plan *p, const struct pb_json *ref, const char *name)
{
    struct renaming r = {ref, quoted(p, name), quoted(p, pb_plan_alias(ref))};
    struct pb_buf b = PB_BUF_INIT;
    const char *copy;

    pb_stmt_write(&b, ref, rename_part, &r);
    copy = pb_arena_strdup(p->arena, b.data);
    pb_buf_finish(&b);
    return copy;
}

static const char *bare_part(const struct pb_json *part, void *arg)
{
    const struct renaming *r = arg;

    if (!part->key || part < r->ref->items || part >= r->ref->items + r->ref->n)
        return NULL;
    return strcmp(part->key, "sample") == 0              ? "null"
           : strcmp(part->key, "column_name_alias") == 0 ? "[]"
                                                         : NULL;
}

const char *pb_plan_bare(struct pb_plan *p, const struct pb_json *ref)
{
    struct renaming r = {.ref = ref};
    struct pb_buf b = PB_BUF_INIT;
    const char *copy;

    pb_stmt_write(&b, ref, bare_part, &r);
    copy = pb_arena_strdup(p->arena, b.data);
    pb_buf_finish(&b);
    return copy;
}

const char *pb_plan_number(struct pb_plan *p, int64_t number)
{
    return pb_arena_printf(p->arena,
                           "{\"class\":\"CONSTANT\",\"type\":\"VALUE_CONSTANT\",\"alias\":\"\","
                           "\"query_location\":" PB_PLAN_NOWHERE ",\"value\":{\"type\":{\"id\":"
                           "\"BIGINT\",\"type_info\":null},\"is_null\":false,\"value\":%lld}}",
                           (long long)number);
}

const char *pb_plan_column(struct pb_plan *p, const char *name, const char *alias)
{
    return pb_arena_printf(p->arena,
                           "{\"class\":\"COLUMN_REF\",\"type\":\"COLUMN_REF\",\"alias\":%s,"
                           "\"query_location\":" PB_PLAN_NOWHERE ",\"column_names\":[%s]}",
                           quoted(p, alias), quoted(p, name));
}

const char *pb_plan_call(struct pb_plan *p, const char *function, const char *children,
                         bool is_operator)
{
    return pb_arena_printf(
        p->arena,
        "{\"class\":\"FUNCTION\",\"type\":\"FUNCTION\",\"alias\":\"\",\"query_location\":"
        PB_PLAN_NOWHERE ",\"function_name\":\"%s\",\"schema\":\"\",\"children\":[%s],\"filter\":"
        "null,\"order_bys\":{\"type\":\"ORDER_MODIFIER\",\"orders\":[]},\"distinct\":false,"
        "\"is_operator\":%s,\"export_state\":false,\"catalog\":\"\"}",
        function, children, is_operator ? "true" : "false");
}

const char *pb_plan_bigint(struct pb_plan *p, const char *child)
{
    return pb_arena_printf(p->arena,
                           "{\"class\":\"CAST\",\"type\":\"OPERATOR_CAST\",\"alias\":\"\","
                           "\"query_location\":" PB_PLAN_NOWHERE ",\"child\":%s,\"cast_type\":"
                           "{\"id\":\"BIGINT\",\"type_info\":null},\"try_cast\":false}", child);
}

const char *pb_plan_with_alias(struct pb_plan *p, const char *json, const char *alias)
{
    static const char empty[] = "\"alias\":\"\"";
    const char *at = strstr(json, empty);

    if (!*alias || !at)
        return json;
    return pb_arena_printf(p->arena, "%.*s\"alias\":%s%s", (int)(at - json), json,
                           quoted(p, alias), at + sizeof empty - 1);
}
