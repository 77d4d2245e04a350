#include "cli/dead.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/home.h"
#include "cli/job.h"
#include "host/secret.h"
#include "node/archive_lake.h"
#include "node/node.h"
#include "show/table.h"

#define NS_PER_S 1000000000ll

struct dead {
    const char *id, *host, *python, *command;
    int64_t rank;
    int64_t ended_ns; /* 0: unknown */
    bool later;       /* that is its last row, or when its probes were taken out: it ended after */
    const char *how;  /* "SIGKILL", "exit 1"; NULL: unknown */
    size_t tables;
    const char **names; /* of the tables */
    uint64_t rows;
};

struct dead_list {
    struct pb_arena *arena;
    struct dead *v;
    size_t n, cap;
};

static struct dead *find(struct dead_list *l, const char *id)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->v[i].id, id) == 0)
            return &l->v[i];
    if (l->n == l->cap) {
        size_t more = l->cap ? l->cap * 2 : 32;

        l->v = pb_arena_grow(l->arena, l->v, l->cap * sizeof *l->v, more * sizeof *l->v);
        l->cap = more;
    }
    l->v[l->n] = (struct dead){.id = pb_arena_strdup(l->arena, id), .host = "", .rank = -1};
    return &l->v[l->n++];
}

static void add_rows(struct dead_list *l, struct dead *d, const char *table, uint64_t rows)
{
    size_t i = 0;

    d->rows += rows;
    while (i < d->tables && strcmp(d->names[i], table) != 0)
        i++;
    if (i < d->tables)
        return;
    if ((d->tables & (d->tables + 1)) == 0) /* full at 0, 1, 3, 7, … */
        d->names = pb_arena_grow(l->arena, d->names, d->tables * sizeof *d->names,
                                 (d->tables * 2 + 1) * sizeof *d->names);
    d->names[d->tables++] = pb_arena_strdup(l->arena, table);
}

/* Rings of a process: what is in files already is counted there. */
static void add_store(struct dead_list *l, const struct pb_store *s)
{
    const char *state;
    struct dead *d;
    bool killed;

    if (s->process.live || !s->nrings || pb_store_value(s->meta, "role", l->arena))
        return; /* a node's own folder is no job */
    d = find(l, s->process.id);
    d->host = pb_arena_strdup(l->arena, s->host);
    d->python = pb_store_value(s->meta, "python", l->arena);
    d->command = pb_store_value(s->meta, "command", l->arena);
    if (d->command)
        d->command = pb_secret_text(d->command, l->arena);
    d->rank = s->rank;
    d->ended_ns = s->process.until_ns == INT64_MAX ? 0 : s->process.until_ns;
    d->how = pb_store_end(s, l->arena, &killed);
    state = pb_store_value(s->status, "agent.state", l->arena);
    d->later = state && strcmp(state, "ejected") == 0 && !*s->end;
    for (size_t i = 0; i < s->nrings; i++) {
        uint64_t first, next, sealed = atomic_load(&s->rings[i]->sealed);

        pb_reader_range(&s->rings[i]->reader, &first, &next);
        first = first > sealed ? first : sealed;
        add_rows(l, d, s->rings[i]->reader.name, next > first ? next - first : 0);
    }
}

static bool is_live(const struct pb_stores *stores, const char *id)
{
    for (size_t i = 0; i < stores->nstores; i++)
        if (stores->stores[i]->process.live && strcmp(stores->stores[i]->process.id, id) == 0)
            return true;
    return false;
}

/* Probes were taken out of it, and it runs on. */
static bool runs_here(const char *host, const char *id)
{
    const char *dash = strchr(id, '-');
    char own[256] = "";

    gethostname(own, sizeof own - 1);
    return dash && strcmp(host, own) == 0 &&
           pb_home_start_time((pid_t)strtol(id, NULL, 10)) == strtoull(dash + 1, NULL, 10);
}

static int add_history(struct dead_list *l, const struct pb_stores *stores, const char *data_dir,
                       struct pb_err *err)
{
    struct pb_finds finds = {0};
    int rc = pb_lake_scan(pb_arena_printf(l->arena, "%s/lake", data_dir), NULL, &finds, err);

    for (size_t i = 0; rc == 0 && i < finds.n; i++) {
        const struct pb_series_id *key = &finds.found[i].key;
        const struct pb_part *part = &finds.found[i].part;
        struct dead *d;

        /* What a node measures lies under its own number: rows about others. */
        if (strncmp(key->table, "system.", 7) == 0 || strncmp(key->table, "gpu.", 4) == 0 ||
            is_live(stores, key->process) || runs_here(key->host, key->process))
            continue;
        d = find(l, key->process);
        if (!*d->host)
            d->host = pb_arena_strdup(l->arena, key->host);
        if (!d->command && part->last_ns > d->ended_ns) {
            d->ended_ns = part->last_ns;
            d->later = true;
        }
        add_rows(l, d, key->table, part->rows);
    }
    pb_finds_finish(&finds);
    return rc;
}

static int by_end(const void *a, const void *b)
{
    const struct dead *x = a, *y = b;

    return (x->ended_ns < y->ended_ns) - (x->ended_ns > y->ended_ns);
}

static const char *time_text(struct pb_arena *a, int64_t ns, bool for_people)
{
    time_t seconds = (time_t)(ns / NS_PER_S);
    struct tm tm;
    char text[40];

    if (ns <= 0)
        return "";
    if (for_people)
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", localtime_r(&seconds, &tm));
    else
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &tm));
    return pb_arena_strdup(a, text);
}

enum { PID, PROCESS, HOST, PYTHON, RANK, ENDED, HOW, TABLES, ROWS, COMMAND, NCOLUMNS };

static const struct pb_column columns[NCOLUMNS] = {
    [PID] = {.title = "pid", .right = true, .min_width = 6},
    [PROCESS] = {.title = "process"},
    [HOST] = {.title = "host"},
    [PYTHON] = {.title = "python"},
    [RANK] = {.title = "rank"},
    [ENDED] = {.title = "ended"},
    [HOW] = {.title = "how"},
    [TABLES] = {.title = "tables", .right = true},
    [ROWS] = {.title = "rows", .right = true},
    [COMMAND] = {.title = "command", .shrinks = true},
};

static void make_cells(struct pb_arena *a, const struct dead *d, bool csv,
                       const char *cell[NCOLUMNS])
{
    cell[PID] = pb_arena_strndup(a, d->id, strcspn(d->id, "-"));
    cell[PROCESS] = d->id;
    cell[HOST] = d->host;
    cell[PYTHON] = d->python;
    cell[RANK] = d->rank < 0 ? (csv ? "" : "-") : pb_arena_printf(a, "%ld", (long)d->rank);
    cell[ENDED] = d->later && csv ? "" : time_text(a, d->ended_ns, !csv);
    if (d->later && !csv)
        cell[ENDED] = pb_arena_printf(a, "after %s", cell[ENDED]);
    cell[HOW] = d->how ? d->how : csv ? "" : "-";
    cell[TABLES] = pb_arena_printf(a, "%zu", d->tables);
    cell[ROWS] = pb_arena_printf(a, "%llu", (unsigned long long)d->rows);
    cell[COMMAND] = d->command;
}

/* With -v also what tells apart two processes of one number. */
static void print_table(struct pb_ctx *ctx, const struct dead_list *l, bool csv)
{
    struct pb_arena *a = &ctx->arena;
    struct pb_column shown[NCOLUMNS];
    size_t n = 0;
    struct pb_table t = {.columns = shown, .cells = PB_NEW_N(a, const char *, NCOLUMNS * l->n + 1)};
    const char **to = t.cells;

    for (size_t i = 0; i <= l->n; i++) { /* the titles first */
        const char *cell[NCOLUMNS];

        if (i)
            make_cells(a, &l->v[i - 1], csv, cell);
        for (int c = 0; c < NCOLUMNS; c++) {
            if ((c == PROCESS || c == HOST) && !csv && !ctx->verbose)
                continue;
            if (i)
                *to++ = cell[c];
            else
                shown[n++] = columns[c];
        }
    }
    t.ncolumns = n;
    t.nrows = l->n;
    if (csv)
        pb_table_print_csv(&ctx->out, &t);
    else
        pb_table_print(&ctx->out, &t);
}

static void print_json(struct pb_ctx *ctx, const struct dead_list *l)
{
    struct pb_buf *b = &ctx->out.buf;

    pb_buf_puts(b, "[");
    for (size_t i = 0; i < l->n; i++) {
        const struct dead *d = &l->v[i];
        const char *ended = time_text(&ctx->arena, d->ended_ns, false);

        pb_buf_puts(b, i ? ",\n {" : "{");
        pb_json_key(b, "pid");
        pb_json_int(b, strtol(d->id, NULL, 10));
        pb_json_key(b, "process");
        pb_json_string(b, d->id);
        pb_json_key(b, "host");
        pb_json_string(b, d->host);
        pb_json_key(b, "python");
        pb_json_string_or_null(b, d->python);
        pb_json_key(b, "rank");
        if (d->rank < 0)
            pb_buf_puts(b, "null");
        else
            pb_json_int(b, d->rank);
        pb_json_key(b, "ended");
        pb_json_string_or_null(b, *ended && !d->later ? ended : NULL);
        pb_json_key(b, "seen");
        pb_json_string_or_null(b, *ended ? ended : NULL);
        pb_json_key(b, "how");
        pb_json_string_or_null(b, d->how);
        pb_json_key(b, "command");
        pb_json_string_or_null(b, d->command);
        pb_json_key(b, "tables");
        pb_buf_putc(b, '[');
        for (size_t k = 0; k < d->tables; k++) {
            pb_json_comma(b);
            pb_json_string(b, d->names[k]);
        }
        pb_buf_putc(b, ']');
        pb_json_key(b, "rows");
        pb_json_int(b, (int64_t)d->rows);
        pb_buf_putc(b, '}');
    }
    pb_buf_puts(b, "]\n");
}

static void print(struct pb_ctx *ctx, struct dead_list *l, const char *format)
{
    if (l->n)
        qsort(l->v, l->n, sizeof *l->v, by_end);
    if (strcmp(format, "json") == 0)
        print_json(ctx, l);
    else if (strcmp(format, "csv") == 0 || l->n)
        print_table(ctx, l, strcmp(format, "csv") == 0);
    else
        pb_ctx_notice(ctx, "no ended processes that left tables behind");
}

static int gather(struct pb_ctx *ctx, struct dead_list *l)
{
    struct pb_node_opts o = {.store_dir = ctx->store, .data_dir = ctx->store};
    struct pb_node *node;
    struct pb_stores *stores;
    char data[PATH_MAX];
    int rc;

    if (!ctx->store) {
        if (pb_node_data_dir(data, sizeof data, &ctx->err) < 0)
            return -1;
        o.data_dir = data;
    }
    if (pb_node_create(&node, &o, &ctx->err) < 0)
        return -1;
    stores = pb_discover_take(node->discover, -1);
    for (size_t i = 0; i < stores->nstores; i++)
        add_store(l, stores->stores[i]);
    rc = add_history(l, stores, o.data_dir, &ctx->err);
    pb_stores_drop(stores);
    pb_node_destroy(node);
    return rc;
}

int pb_dead_list(struct pb_ctx *ctx, const char *format)
{
    struct dead_list l = {.arena = &ctx->arena};

    if (gather(ctx, &l) < 0)
        return -1;
    print(ctx, &l, format);
    return 0;
}

/* The command line was kept with spaces between its words. */
static bool ran(struct pb_arena *a, const char *command, const char *script)
{
    size_t len = strlen(command);
    char *argv = pb_arena_strdup(a, command);

    for (size_t i = 0; i < len; i++)
        argv[i] = argv[i] == ' ' ? '\0' : argv[i];
    return pb_job_runs(argv, len, script);
}

int pb_dead_of_script(struct pb_ctx *ctx, const char *script, const char ***ret, size_t *ret_n)
{
    struct dead_list l = {.arena = &ctx->arena};

    if (gather(ctx, &l) < 0)
        return -1;
    *ret = PB_NEW_N(&ctx->arena, const char *, l.n + 1);
    *ret_n = 0;
    for (size_t i = 0; i < l.n; i++)
        if (l.v[i].command && ran(&ctx->arena, l.v[i].command, script))
            (*ret)[(*ret_n)++] = l.v[i].id;
    return 0;
}
