#include "node/sql/global/global.h"

#include <string.h>
#include <strings.h>

#include "node/sql/global/plan.h"
#include "node/sql/statement.h"
#include "node/sql/answer/titles.h"

enum { REFS_MAX = 256 };

/* What stands instead of a part of one tree. */
struct swaps {
    const struct pb_json *parts[REFS_MAX];
    const char *json[REFS_MAX];
    size_t n;
};

static const char *find_swap(const struct pb_json *part, void *arg)
{
    const struct swaps *w = arg;

    for (size_t i = 0; i < w->n; i++)
        if (w->parts[i] == part)
            return w->json[i];
    return NULL;
}

static void add_name(struct pb_plan *p, const char ***v, size_t *n, const char *name)
{
    for (size_t i = 0; i < *n; i++)
        if (strcasecmp((*v)[i], name) == 0)
            return;
    if (*n < PB_PLAN_NAMES)
        (*v)[(*n)++] = name;
    else
        p->all_columns = true;
}

static int collect(struct pb_plan *p, const struct pb_json *part);

/* What a view speaks of, unless nodes make its rows. */
static int collect_view(struct pb_plan *p, struct pb_plan_table *t, const struct pb_json *ref)
{
    struct pb_json *tree = PB_NEW(p->arena, struct pb_json);
    struct pb_json from = {.type = PB_J_OBJECT, .key = "from_table"}, select;

    if (!t->known_by_row)
        pb_plan_learn_columns(p, t);
    from.items = ref->items;
    from.n = ref->n;
    select = (struct pb_json){.type = PB_J_OBJECT, .items = &from, .n = 1};
    if (pb_plan_single(p, &select) || t->made)
        return 0;
    t->made = "";
    if (pb_stmt_read(p->sql, p->conn, t->sql, p->arena, tree, p->err) < 0)
        return -1;
    return collect(p, pb_stmt_node(tree));
}

static int collect_table(struct pb_plan *p, const struct pb_json *ref)
{
    struct pb_plan_table *t = pb_plan_table(p, ref);

    if (t)
        t->named = true;
    add_name(p, &p->refs, &p->nrefs, pb_plan_alias(ref));
    p->all_columns |= !pb_plan_is_empty(ref, "column_name_alias");
    return t && t->source == PB_FROM_VIEW ? collect_view(p, t, ref) : 0;
}

static void collect_names(struct pb_plan *p, const struct pb_json *names)
{
    for (size_t i = 0; names && names->type == PB_J_ARRAY && i < names->n; i++)
        if (names->items[i].type == PB_J_STRING) {
            add_name(p, &p->names, &p->nnames, names->items[i].s);
            if (i + 1 == names->n)
                add_name(p, &p->lasts, &p->nlasts, names->items[i].s);
        }
}

/* A table's own name in the place of a column is all of its row. */
static bool has_whole_rows(const struct pb_plan *p)
{
    for (size_t i = 0; i < p->nrefs; i++)
        for (size_t k = 0; k < p->nlasts; k++)
            if (strcasecmp(p->refs[i], p->lasts[k]) == 0)
                return true;
    return false;
}

/* All names of columns, and of WITH, that are spoken of: before any part is made. */
static int collect(struct pb_plan *p, const struct pb_json *part)
{
    if (part->type == PB_J_OBJECT) {
        const struct pb_json *map = pb_json_get(pb_json_get(part, "cte_map"), "map");

        for (size_t i = 0; map && i < map->n; i++) {
            const char *name = pb_json_str(&map->items[i], "key", "");
            struct pb_json ref = {.type = PB_J_STRING, .s = name, .key = "table_name"};
            struct pb_json object = {.type = PB_J_OBJECT, .items = &ref, .n = 1};

            if (pb_plan_table(p, &object))
                return pb_err_set(p->err, PB_FAIL, "WITH %.60s: there is a table of that name; "
                                                   "over a cluster it must be another", name);
            add_name(p, &p->ctes, &p->nctes, name);
        }
        if (pb_stmt_is(part, "type", "SHOW_REF"))
            return pb_err_set(p->err, PB_FAIL, "DESCRIBE and SUMMARIZE inside a statement are for "
                                               "one node: add --local");
        if (pb_stmt_is(part, "type", "BASE_TABLE"))
            return collect_table(p, part);
        p->all_columns |= pb_stmt_is(part, "class", "STAR") || pb_stmt_is(part, "type", "PIVOT") ||
                          pb_stmt_is(part, "ref_type", "NATURAL") ||
                          pb_stmt_is(part, "class", "POSITIONAL_REFERENCE");
        collect_names(p, pb_json_get(part, "column_names"));
        collect_names(p, pb_json_get(part, "using_columns"));
    }
    for (size_t i = 0; (part->type == PB_J_OBJECT || part->type == PB_J_ARRAY) && i < part->n; i++)
        if (collect(p, &part->items[i]) < 0)
            return -1;
    return 0;
}

/* Is it behind FROM of that very SELECT, with inner joins alone around it? */
static bool is_inner(const struct pb_json *from, const struct pb_json *ref)
{
    if (from == ref)
        return true;
    if (!pb_stmt_is(from, "type", "JOIN") || !pb_stmt_is(from, "join_type", "INNER") ||
        pb_stmt_is(from, "ref_type", "ASOF") || pb_stmt_is(from, "ref_type", "POSITIONAL"))
        return false;
    return is_inner(pb_json_get(from, "left"), ref) || is_inner(pb_json_get(from, "right"), ref);
}

static int swap_tables(struct pb_plan *p, const struct pb_json *part, const struct pb_json *select,
                       const struct pb_json *root, struct swaps *w);

static const char *made_name(struct pb_plan *p, struct pb_plan_table *t)
{
    struct pb_json *tree = PB_NEW(p->arena, struct pb_json);
    struct swaps *w = PB_NEW(p->arena, struct swaps);
    struct pb_buf b = PB_BUF_INIT;
    const char *sql = NULL, *name = NULL;

    if (t->made && *t->made)
        return t->made;
    if (pb_stmt_read(p->sql, p->conn, t->sql, p->arena, tree, p->err) < 0 ||
        swap_tables(p, pb_stmt_node(tree), NULL, NULL, w) < 0)
        return NULL;
    pb_stmt_write(&b, pb_stmt_node(tree), find_swap, w);
    if (p->ret->nviews == PB_PLAN_VIEWS)
        pb_err_set(p->err, PB_FAIL, "a statement over the cluster names at most %d views",
                   PB_PLAN_VIEWS);
    else if (pb_stmt_text(p->sql, p->conn, b.data, p->arena, &sql, p->err) == 0)
        name = pb_arena_printf(p->arena, "probing_view_%zu", p->ret->nviews);
    if (name)
        p->ret->views[p->ret->nviews++] = (struct pb_global_view){name, sql};
    pb_buf_finish(&b);
    t->made = name;
    return name;
}

static int swap_table(struct pb_plan *p, const struct pb_json *ref, const struct pb_json *select,
                      const struct pb_json *root, struct swaps *w)
{
    struct pb_plan_table *t = pb_plan_table(p, ref);
    const struct pb_json *from = select ? pb_json_get(select, "from_table") : NULL;
    const struct pb_global_part *part = NULL;
    const char *name;

    if (!t)
        return 0; /* of WITH, or the engine's own */
    if (t->source == PB_FROM_VIEW && !t->by_row) {
        name = made_name(p, t);
    } else {
        part = pb_plan_rows(p, from && is_inner(from, ref) ? select : NULL, ref, t,
                            select && select == root && from == ref);
        name = part ? part->name : NULL;
    }
    if (!name)
        return -1;
    if (w->n == REFS_MAX)
        return pb_err_set(p->err, PB_FAIL, "too long a statement for a cluster");
    w->parts[w->n] = ref;
    w->json[w->n++] = pb_plan_rename(p, ref, name);
    return 0;
}

/* "python.memory.rss_mb" is "memory.rss_mb" of the part that stands for the table. */
static int swap_column(struct pb_plan *p, const struct pb_json *names, struct swaps *w)
{
    struct pb_buf b = PB_BUF_INIT;

    if (!names || names->type != PB_J_ARRAY || names->n < 3)
        return 0;
    if (w->n == REFS_MAX)
        return pb_err_set(p->err, PB_FAIL, "too long a statement for a cluster");
    pb_buf_putc(&b, '[');
    pb_stmt_write(&b, &names->items[names->n - 2], NULL, NULL);
    pb_buf_putc(&b, ',');
    pb_stmt_write(&b, &names->items[names->n - 1], NULL, NULL);
    pb_buf_putc(&b, ']');
    w->parts[w->n] = names;
    w->json[w->n++] = pb_arena_strdup(p->arena, b.data);
    pb_buf_finish(&b);
    return 0;
}

/* Puts parts and views in the place of all tables of a tree. */
static int swap_tables(struct pb_plan *p, const struct pb_json *part, const struct pb_json *select,
                       const struct pb_json *root, struct swaps *w)
{
    if (part->type != PB_J_OBJECT && part->type != PB_J_ARRAY)
        return 0;
    if (pb_stmt_is(part, "type", "BASE_TABLE"))
        return swap_table(p, part, select, root, w);
    if (pb_stmt_is(part, "type", "SELECT_NODE"))
        select = part;
    if (pb_stmt_is(part, "class", "COLUMN_REF"))
        return swap_column(p, pb_json_get(part, "column_names"), w);
    for (size_t i = 0; i < part->n; i++)
        if (swap_tables(p, &part->items[i], select, root, w) < 0)
            return -1;
    return 0;
}

static void find_titles(struct pb_statement *st, const struct pb_query *q, struct pb_arena *a,
                        struct pb_global_plan *ret)
{
    size_t n = st->sql->duck->prepared_statement_column_count(st->prepared);
    const char **titles = pb_titles_find(a, q->sql, strlen(q->sql), n);

    ret->titles = PB_NEW_N(a, const char *, n + 1);
    ret->ntitles = n;
    for (size_t i = 0; i < n; i++)
        ret->titles[i] = titles && titles[i] ? titles[i]
                                             : pb_arena_strdup(a, pb_statement_column(st, i));
}

static int plan(struct pb_plan *p, struct pb_statement *st)
{
    struct swaps *w = PB_NEW(p->arena, struct swaps);
    struct pb_json tree;
    struct pb_buf b = PB_BUF_INIT;
    const struct pb_json *node;
    int rc;

    pb_plan_copy_tables(p);
    if (!p->aggregates)
        return pb_err_set(p->err, PB_FAIL, "the engine does not say what its aggregates are");
    if (pb_stmt_read(p->sql, p->conn, st->text.text.data, p->arena, &tree, p->err) < 0)
        return -1;
    node = pb_stmt_node(&tree);
    if (collect(p, node) < 0)
        return -1;
    p->all_columns |= has_whole_rows(p);
    p->ret->tables = pb_plan_users(p);
    p->ret->guessed = p->all_columns && p->ret->tables;
    if (pb_plan_groups(p, node, &p->ret->sql))
        return 0;
    if (swap_tables(p, node, NULL, node, w) < 0)
        return -1;
    pb_stmt_write(&b, node, find_swap, w);
    rc = pb_stmt_text(p->sql, p->conn, b.data, p->arena, &p->ret->sql, p->err);
    pb_buf_finish(&b);
    p->ret->local = rc == 0 && !p->ret->nparts;
    return rc;
}

int pb_sql_plan_global(struct pb_sql *s, const struct pb_query *q, struct pb_arena *a,
                       struct pb_global_plan *ret, struct pb_buf *notices,
                       struct pb_sql_error *err)
{
    struct pb_sql_task task = {.sql = s, .scope = q->scope, .deadline_ns = UINT64_MAX,
                               .cancelled = q->cancelled, .entry = -1, .notices = notices};
    struct pb_plan p = {.sql = s, .arena = a, .ret = ret, .err = &err->err};
    struct pb_statement st;
    int rc = -1;

    *ret = (struct pb_global_plan){
        .parts = PB_NEW_N(a, struct pb_global_part, PB_PLAN_PARTS + 1),
        .views = PB_NEW_N(a, struct pb_global_view, PB_PLAN_VIEWS + 1),
    };
    *err = (struct pb_sql_error){.at = -1};
    if (pb_sql_warm(s, &err->err) < 0)
        return -1;
    if (pb_statement_open(&st, s, &task, q->sql, strlen(q->sql), 0, err) == 0 &&
        pb_statement_prepare(&st) == 0) {
        p.conn = st.conn;
        p.statement = st.prepared;
        p.refs = PB_NEW_N(a, const char *, PB_PLAN_NAMES);
        p.lasts = PB_NEW_N(a, const char *, PB_PLAN_NAMES);
        p.names = PB_NEW_N(a, const char *, PB_PLAN_NAMES);
        p.ctes = PB_NEW_N(a, const char *, PB_PLAN_NAMES);
        p.aggregates = pb_plan_aggregates(s, st.conn);
        ret->local = !st.reads || st.inner;
        find_titles(&st, q, a, ret);
        rc = ret->local ? 0 : plan(&p, &st);
    }
    pb_statement_close(&st);
    return rc;
}
