/*
 * Aggregates of a global statement, put together from those of the nodes.
 *
 * Each node runs the statement as far as its groups: the expressions of GROUP BY as g0, g1 …, and
 * of each aggregate what the whole can be made of, as p0, p1 …. The statement over these answers
 * has the same SELECT, HAVING and ORDER BY, with sum(p0) where count(*) was, and g0 for the first
 * group.
 */
#include <string.h>
#include <strings.h>

#include "node/sql/global/plan.h"

enum { GROUPS_MAX = 32, AGGREGATES_MAX = 32 };

struct groups {
    struct pb_plan *plan;
    const struct pb_json *node;
    const struct pb_plan_table *table;
    const struct pb_json *keys[GROUPS_MAX]; /* what is grouped by */
    size_t nkeys;
    const struct pb_json *calls[AGGREGATES_MAX]; /* different aggregates */
    const char *whole[AGGREGATES_MAX];          /* what stands for each over the answers */
    size_t ncalls;
    size_t npartials;
    struct pb_buf list; /* what the nodes select, JSON */
};

static const struct pb_json *items(const struct pb_json *node, const char *key, size_t *ret_n)
{
    const struct pb_json *v = pb_json_get(node, key);

    *ret_n = v && v->type == PB_J_ARRAY ? v->n : 0;
    return *ret_n ? v->items : NULL;
}

/* What the nodes call the i-th group in their answers. */
static const char *key_name(const struct groups *g, size_t i)
{
    return pb_arena_printf(g->plan->arena, "probing_g%zu", i);
}

static bool add_key(struct groups *g, const struct pb_json *key)
{
    const char *alias = pb_plan_alias(pb_json_get(g->node, "from_table"));

    /* A constant would be found again elsewhere: as the number of LIMIT, or of a column. */
    if (g->nkeys == GROUPS_MAX || pb_stmt_is(key, "class", "CONSTANT") ||
        !pb_plan_is_local(g->plan, key, g->table, alias))
        return false;
    g->keys[g->nkeys++] = key;
    return true;
}

/* GROUP BY 2, or by a name that AS gives and the table does not have: the item of SELECT. */
static const struct pb_json *meant(const struct groups *g, const struct pb_json *key)
{
    const struct pb_json *names = pb_json_get(key, "column_names"), *list;
    size_t n;

    list = items(g->node, "select_list", &n);
    if (pb_stmt_is(key, "class", "CONSTANT")) {
        int64_t number = pb_json_whole(pb_json_get(key, "value"), "value", 0);

        return number >= 1 && number <= (int64_t)n ? &list[number - 1] : NULL;
    }
    if (!pb_stmt_is(key, "class", "COLUMN_REF") || !names || names->n != 1 ||
        names->items[0].type != PB_J_STRING || pb_plan_has_column(g->table, names->items[0].s))
        return key;
    for (size_t i = 0; i < n; i++)
        if (strcasecmp(pb_json_str(&list[i], "alias", ""), names->items[0].s) == 0)
            return &list[i];
    return NULL;
}

static bool find_keys(struct groups *g)
{
    size_t n, nlist, nsets;
    const struct pb_json *keys = items(g->node, "group_expressions", &n);
    const struct pb_json *list = items(g->node, "select_list", &nlist);
    const struct pb_json *sets = items(g->node, "group_sets", &nsets);

    if (nsets > 1 || (nsets == 1 && sets[0].n != n))
        return false; /* GROUPING SETS, ROLLUP, CUBE */
    if (pb_stmt_is(g->node, "aggregate_handling", "FORCE_AGGREGATES")) {
        for (size_t i = 0; i < nlist; i++)
            if (!pb_plan_any(g->plan, &list[i], pb_plan_is_aggregate) && !add_key(g, &list[i]))
                return false;
        return true;
    }
    for (size_t i = 0; i < n; i++) {
        const struct pb_json *key = meant(g, &keys[i]);

        if (!key || !add_key(g, key))
            return false;
    }
    return true;
}

struct calling {
    const struct pb_json *call;
    const char *function, *alias;
};

static const char *swap_call(const struct pb_json *part, void *arg)
{
    const struct calling *c = arg;

    if (!part->key || part < c->call->items || part >= c->call->items + c->call->n)
        return NULL;
    return strcmp(part->key, "function_name") == 0 ? c->function
           : strcmp(part->key, "alias") == 0       ? c->alias
                                                   : NULL;
}

/* Has the nodes compute this; returns the column that it will be, as JSON. */
static const char *add_partial(struct groups *g, const struct pb_json *call, const char *function)
{
    struct pb_plan *p = g->plan;
    const char *name = pb_arena_printf(p->arena, "probing_p%zu", g->npartials++);
    struct calling c = {call, pb_arena_printf(p->arena, "\"%s\"", function),
                        pb_arena_printf(p->arena, "\"%s\"", name)};

    pb_buf_putc(&g->list, ',');
    pb_stmt_write(&g->list, call, swap_call, &c);
    return pb_plan_column(p, name, "");
}

/* Is it one of those that can be put together, with one plain argument? */
static bool is_simple(const struct groups *g, const struct pb_json *call, bool counts_rows)
{
    const struct pb_json *orders = pb_json_get(pb_json_get(call, "order_bys"), "orders");
    const struct pb_json *filter = pb_json_get(call, "filter");
    const char *alias = pb_plan_alias(pb_json_get(g->node, "from_table"));
    size_t n;
    const struct pb_json *children = items(call, "children", &n);

    return n == (counts_rows ? 0u : 1u) && !(orders && orders->n) &&
           !pb_json_flag(call, "distinct", false) && !pb_json_flag(call, "export_state", false) &&
           (!n || pb_plan_is_local(g->plan, children, g->table, alias)) &&
           (!filter || filter->type == PB_J_NULL ||
            pb_plan_is_local(g->plan, filter, g->table, alias));
}

/* What stands for an aggregate over the answers; NULL when nothing can. */
static const char *whole_of(struct groups *g, const struct pb_json *call)
{
    static const char same[] = " min max bool_and bool_or any_value bit_and bit_or ";
    struct pb_plan *p = g->plan;
    const char *name = pb_json_str(call, "function_name", "");
    bool rows = strcmp(name, "count_star") == 0;

    if (!is_simple(g, call, rows))
        return NULL;
    if (rows || strcmp(name, "count") == 0)
        return pb_plan_bigint(p, pb_plan_call(p, "sum", add_partial(g, call, name), false));
    if (strcmp(name, "sum") == 0)
        return pb_plan_call(p, "sum", add_partial(g, call, name), false);
    if (strcmp(name, "avg") == 0 || strcmp(name, "mean") == 0) {
        const char *sum = pb_plan_call(p, "sum", add_partial(g, call, "sum"), false);
        const char *count = pb_plan_call(p, "sum", add_partial(g, call, "count"), false);

        return pb_plan_call(p, "/", pb_arena_printf(p->arena, "%s,%s", sum, count), true);
    }
    if (strstr(same, pb_arena_printf(p->arena, " %s ", name)))
        return pb_plan_call(p, name, add_partial(g, call, name), false);
    return NULL;
}

/* All aggregates of a part, each once. */
static bool find_calls(struct groups *g, const struct pb_json *part)
{
    if (part->type != PB_J_OBJECT && part->type != PB_J_ARRAY)
        return true;
    if (pb_plan_is_aggregate(g->plan, part)) {
        for (size_t i = 0; i < g->ncalls; i++)
            if (pb_stmt_same(g->calls[i], part))
                return true;
        if (g->ncalls == AGGREGATES_MAX)
            return false;
        g->calls[g->ncalls] = part;
        g->whole[g->ncalls] = whole_of(g, part);
        return g->whole[g->ncalls++] != NULL;
    }
    for (size_t i = 0; i < part->n; i++)
        if (!find_calls(g, &part->items[i]))
            return false;
    return true;
}

/* JSON of an expression under another name. */
static void put_named(struct groups *g, const struct pb_json *part, const char *alias,
                      struct pb_buf *b)
{
    struct calling c = {part, NULL, pb_arena_printf(g->plan->arena, "\"%s\"", alias)};

    pb_stmt_write(b, part, swap_call, &c);
}

static const char *swap_whole(const struct pb_json *part, void *arg)
{
    struct groups *g = arg;
    const char *alias;

    if (part->type != PB_J_OBJECT || !pb_json_get(part, "class"))
        return NULL;
    alias = pb_json_str(part, "alias", "");
    for (size_t i = 0; i < g->nkeys; i++)
        if (pb_stmt_same(g->keys[i], part))
            return pb_plan_column(g->plan, key_name(g, i), alias);
    for (size_t i = 0; i < g->ncalls; i++)
        if (pb_stmt_same(g->calls[i], part))
            return pb_plan_with_alias(g->plan, g->whole[i], alias);
    return NULL;
}

static const char *set_of(struct groups *g)
{
    const char *text = "";

    for (size_t i = 0; i < g->nkeys; i++)
        text = pb_arena_printf(g->plan->arena, "%s%s%zu", text, i ? "," : "", i);
    return g->nkeys ? pb_arena_printf(g->plan->arena, "[[%s]]", text) : "[]";
}

struct rebuilding {
    struct groups *g;
    bool whole; /* the statement over answers; else that of nodes */
    const char *select_list, *keys, *from;
};

/* A member of the statement's own object, by its key. */
static const char *swap_member(const struct pb_json *part, void *arg)
{
    struct rebuilding *r = arg;
    const struct pb_json *node = r->g->node;

    if (!part->key || part < node->items || part >= node->items + node->n)
        return r->whole ? swap_whole(part, r->g) : NULL;
    if (strcmp(part->key, "group_expressions") == 0)
        return r->keys;
    if (strcmp(part->key, "group_sets") == 0)
        return set_of(r->g);
    if (strcmp(part->key, "aggregate_handling") == 0)
        return "\"STANDARD_HANDLING\"";
    if (r->whole)
        return strcmp(part->key, "where_clause") == 0 ? "null"
               : strcmp(part->key, "from_table") == 0 ? r->from
                                                      : NULL;
    return strcmp(part->key, "select_list") == 0 ? r->select_list
           : strcmp(part->key, "modifiers") == 0 ? "[]"
           : strcmp(part->key, "having") == 0    ? "null"
                                                 : NULL;
}

/*
 * JSON of the keys: for nodes the numbers of columns, since the engine takes two expressions for
 * one whose arguments differ in their names alone; or the columns of their answers.
 */
static const char *put_keys(struct groups *g, bool whole)
{
    struct pb_buf b = PB_BUF_INIT;
    const char *copy;

    pb_buf_putc(&b, '[');
    for (size_t i = 0; i < g->nkeys; i++) {
        pb_buf_puts(&b, i ? "," : "");
        pb_buf_puts(&b, whole ? pb_plan_column(g->plan, key_name(g, i), "")
                              : pb_plan_number(g->plan, (int64_t)i + 1));
    }
    pb_buf_putc(&b, ']');
    copy = pb_arena_strdup(g->plan->arena, b.data);
    pb_buf_finish(&b);
    return copy;
}

static const char *rebuild(struct groups *g, struct rebuilding *r)
{
    struct pb_buf b = PB_BUF_INIT;
    const char *copy;

    pb_stmt_write(&b, g->node, swap_member, r);
    copy = pb_arena_strdup(g->plan->arena, b.data);
    pb_buf_finish(&b);
    return copy;
}

/* g0, g1 … and the partial aggregates, as JSON. */
static const char *node_list(struct groups *g)
{
    struct pb_buf b = PB_BUF_INIT;
    const char *copy;

    pb_buf_putc(&b, '[');
    for (size_t i = 0; i < g->nkeys; i++) {
        pb_buf_puts(&b, i ? "," : "");
        put_named(g, g->keys[i], key_name(g, i), &b);
    }
    if (g->list.len)
        pb_buf_puts(&b, g->list.data + (g->nkeys ? 0 : 1));
    pb_buf_putc(&b, ']');
    copy = pb_arena_strdup(g->plan->arena, b.data);
    pb_buf_finish(&b);
    return copy;
}

/* Does AS give something the name of a column that it is not? Then the name means either. */
static bool hides_column(const struct groups *g)
{
    size_t n;
    const struct pb_json *list = items(g->node, "select_list", &n);

    for (size_t i = 0; i < n; i++) {
        const char *alias = pb_json_str(&list[i], "alias", "");
        const struct pb_json *names = pb_json_get(&list[i], "column_names");

        if (*alias && pb_plan_has_column(g->table, alias) &&
            !(names && names->n && names->items[names->n - 1].type == PB_J_STRING &&
              strcasecmp(names->items[names->n - 1].s, alias) == 0))
            return true;
    }
    return false;
}

static bool is_candidate(struct groups *g)
{
    const struct pb_plan *p = g->plan;
    const struct pb_json *ctes = pb_json_get(pb_json_get(g->node, "cte_map"), "map");
    const struct pb_json *where = pb_json_get(g->node, "where_clause");
    size_t n;

    return pb_stmt_is(g->node, "type", "SELECT_NODE") && !(ctes && ctes->n) &&
           (pb_plan_any(p, pb_json_get(g->node, "select_list"), pb_plan_is_aggregate) ||
            items(g->node, "group_expressions", &n)) &&
           pb_plan_is_empty(g->node, "sample") && !pb_plan_any(p, g->node, pb_plan_is_nested) &&
           !hides_column(g) &&
           (!where || where->type == PB_J_NULL ||
            pb_plan_is_local(p, where, g->table,
                             pb_plan_alias(pb_json_get(g->node, "from_table"))));
}

static bool try_groups(struct groups *g, const char **ret_sql)
{
    static const char *const members[] = {"select_list", "having", "modifiers", "qualify"};
    const struct pb_json *from = pb_json_get(g->node, "from_table");
    struct rebuilding there = {.g = g}, here = {.g = g, .whole = true};
    struct pb_global_part *part;

    if (!is_candidate(g) || !find_keys(g))
        return false;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const struct pb_json *m = pb_json_get(g->node, members[i]);

        if (m && !find_calls(g, m))
            return false;
    }
    if (!g->nkeys && !g->ncalls)
        return false;
    there.select_list = node_list(g);
    there.keys = put_keys(g, false);
    part = pb_plan_part(g->plan, g->table->name, rebuild(g, &there));
    if (!part)
        return false;
    part->groups = true;
    here.keys = put_keys(g, true);
    here.from = pb_plan_rename(g->plan, from, part->name);
    return pb_stmt_text(g->plan->sql, g->plan->conn, rebuild(g, &here), g->plan->arena, ret_sql,
                        g->plan->err) == 0 &&
           pb_plan_has_types(g->plan, part, *ret_sql);
}

bool pb_plan_groups(struct pb_plan *p, const struct pb_json *node, const char **ret_sql)
{
    struct groups g = {.plan = p, .node = node};
    struct pb_err was = *p->err;
    size_t parts = p->ret->nparts;
    bool done;

    g.table = pb_stmt_is(node, "type", "SELECT_NODE") ? pb_plan_single(p, node) : NULL;
    done = g.table && try_groups(&g, ret_sql);
    if (!done) {
        p->ret->nparts = parts;
        *p->err = was;
    }
    pb_buf_finish(&g.list);
    return done;
}
