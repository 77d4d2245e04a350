/*
 * probing [TARGET] tables - what can be asked for in SQL.
 */
#include "cli/client/query.h"

static int run(struct pb_ctx *ctx);

static const struct pb_opt options[] = {
    {.name = "all", .letter = 'a', .help = "the columns of each table, with type and unit"},
    {.name = "format", .letter = 'f', .type = PB_OPT_CHOICE, .arg = "FORMAT",
     .choices = "table|json|ndjson|csv|markdown", .help = "how to print them (default: table)"},
    {.name = NULL},
};

const struct pb_cmd pb_cmd_tables = {
    .name = "tables",
    .summary = "List the tables that can be queried",
    .details = "Rows are those of the target, or of all processes without one. Tables that are\n"
               "made when asked for, such as python.stacks, have no number. In SQL the same is in\n"
               "probing.tables and probing.columns; SHOW TABLES and DESCRIBE work as well.",
    .options = options,
    .target = PB_TARGET_SCOPE,
    .job = PB_JOB_TOGETHER,
    .whole_cluster = true,
    .examples = "probing tables          # name, rows, what is in it\n"
                "probing 4242 tables -a  # columns and types as well\n",
    .run = run,
};

static const char names[] = "SELECT name, \"rows\", doc FROM probing.tables ORDER BY name";
/* Of a cluster: the rows of all its nodes. */
static const char all_names[] = "SELECT name, sum(\"rows\") AS \"rows\", any_value(doc) AS doc "
                                "FROM probing.tables GROUP BY name ORDER BY name";
static const char all_columns[] = "SELECT name, \"column\", any_value(type) AS type, "
                                  "any_value(unit) AS unit, any_value(doc) AS doc FROM "
                                  "probing.columns GROUP BY name, \"column\" ORDER BY name, "
                                  "min(position)";
static const char columns[] = "SELECT name, \"column\", type, unit, doc FROM probing.columns "
                              "ORDER BY name, position";

static int run(struct pb_ctx *ctx)
{
    bool all = pb_opt_flag(ctx, "all");

    const char *sql = ctx->cluster ? (all ? all_columns : all_names) : all ? columns : names;

    return pb_query_show(ctx, sql, pb_opt_str(ctx, "format", "table"));
}
