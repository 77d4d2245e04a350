/* probing cluster attach: find the machines, ask who is there, start the rest. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/settings.h"
#include "cli/cluster/cluster.h"
#include "cli/client/nodelink.h"
#include "cluster/members.h"
#include "cluster/ranges.h"
#include "host/text/json_write.h"
#include "node/access/token.h"
#include "node/serve/serve.h"
#include "display/table.h"

#define JOIN_NS 20000000000ull
#define LOOK_US 200000
#define STAY_S 2

struct attaching {
    struct pb_ctx *ctx;
    struct pb_nodelink node;
    struct pb_cluster_hosts hosts;
    const char *token; /* the token that was given, or NULL: this user's own */
    const char *name;
    int first_port;
    struct pb_json answer; /* the node's answer to the attach */
    struct pb_json members; /* members that the node knows now */
};

/* A token that was given and is this user's own is no other one. */
static int find_token(struct attaching *a)
{
    char own[PB_TOKEN_MAX];

    if (pb_nodelink_token(a->ctx, &a->token) < 0)
        return -1;
    if (a->token && pb_token_own(own, sizeof own, false, NULL) == 0 && strcmp(own, a->token) == 0)
        a->token = NULL;
    return a->token ? pb_token_check(a->token, &a->ctx->err) : 0;
}

static void put_text(struct pb_buf *b, const char *key, const char *value)
{
    if (!value)
        return;
    pb_json_key(b, key);
    pb_json_string(b, value);
}

static void put_seeds(struct attaching *a, struct pb_buf *b)
{
    pb_json_key(b, "seeds");
    pb_buf_putc(b, '[');
    for (size_t i = 0; i < a->hosts.n; i++) {
        const struct pb_cluster_host *h = &a->hosts.v[i];
        int first = h->port ? h->port : a->first_port, n = h->port ? 1 : PB_MEMBER_PORTS;

        for (int k = 0; h->address && k < n; k++) {
            pb_json_comma(b);
            pb_json_string(b, pb_cluster_join(a->ctx, h->address, first + k));
        }
    }
    pb_buf_putc(b, ']');
}

static int ask_node(struct attaching *a)
{
    struct pb_buf body = PB_BUF_INIT, answer = PB_BUF_INIT;
    int rc;

    pb_buf_putc(&body, '{');
    put_text(&body, "name", a->name);
    put_text(&body, "token", a->token);
    put_text(&body, "address", pb_opt_str(a->ctx, "listen", NULL));
    pb_json_key(&body, "observe");
    pb_json_bool(&body, pb_opt_flag(a->ctx, "observe"));
    put_seeds(a, &body);
    pb_buf_putc(&body, '}');
    rc = pb_nodelink_ask(a->ctx, &a->node, "POST", "/api/cluster", body.data, &answer);
    if (rc == 0)
        rc = pb_json_parse(&a->ctx->arena, answer.data, answer.len, &a->answer, &a->ctx->err);
    explicit_bzero(body.data, body.len);
    pb_buf_finish(&body);
    pb_buf_finish(&answer);
    return rc;
}

/* Is this "10.0.0.3:7707" of that host? */
static bool is_of(struct attaching *a, const struct pb_cluster_host *h, const char *address)
{
    const char *colon = strrchr(address, ':');
    const char *want = h->address ? pb_cluster_join(a->ctx, h->address, 0) : NULL;
    size_t len = colon ? (size_t)(colon - address) : 0;

    return want && len == strlen(want) - 2 && memcmp(want, address, len) == 0;
}

/* Of several ports the reason that says most: somebody is there who is none of us. */
static void take_seeds(struct attaching *a)
{
    const struct pb_json *seeds = pb_json_get(&a->answer, "seeds");

    for (size_t i = 0; i < a->hosts.n; i++) {
        struct pb_cluster_host *h = &a->hosts.v[i];

        for (size_t k = 0; seeds && seeds->type == PB_J_ARRAY && k < seeds->n; k++) {
            const struct pb_json *s = &seeds->items[k];
            const char *error = pb_json_str(s, "error", NULL);

            if (!is_of(a, h, pb_json_str(s, "address", "")))
                continue;
            if (!error) {
                h->joined = true;
                h->how = "joined";
                h->why = NULL;
                break;
            }
            if (!h->why || strcmp(error, "nobody listens there") != 0)
                h->why = error;
        }
    }
}

static int read_members(struct attaching *a)
{
    struct pb_buf answer = PB_BUF_INIT;
    int rc = pb_nodelink_ask(a->ctx, &a->node, "GET", "/api/cluster", NULL, &answer);

    if (rc == 0)
        rc = pb_json_parse(&a->ctx->arena, answer.data, answer.len, &a->members, &a->ctx->err);
    pb_buf_finish(&answer);
    return rc;
}

static const struct pb_json *member_of(struct attaching *a, const struct pb_cluster_host *h)
{
    const struct pb_json *v = pb_json_get(&a->members, "members"), *at;

    for (size_t i = 0; v && v->type == PB_J_ARRAY && i < v->n; i++) {
        const char *state = pb_json_str(&v->items[i], "state", "");

        at = pb_json_get(&v->items[i], "at");
        if (strcmp(state, "alive") != 0)
            continue;
        for (size_t k = 0; at && at->type == PB_J_ARRAY && k < at->n; k++)
            if (at->items[k].type == PB_J_STRING && is_of(a, h, at->items[k].s))
                return &v->items[i];
    }
    return NULL;
}

/* Those that were started come by themselves. */
static int await(struct attaching *a)
{
    uint64_t deadline = pb_clock_ns() + JOIN_NS;
    size_t missing = 1;

    while (missing && pb_clock_ns() < deadline) {
        if (read_members(a) < 0)
            return -1;
        missing = 0;
        for (size_t i = 0; i < a->hosts.n; i++) {
            struct pb_cluster_host *h = &a->hosts.v[i];

            if (h->how && !h->joined && member_of(a, h))
                h->joined = true;
            missing += h->how && !h->joined;
        }
        if (missing)
            usleep(LOOK_US);
    }
    return 0;
}

static int start_missing(struct attaching *a)
{
    struct pb_ctx *ctx = a->ctx;
    struct pb_cluster_host **v = PB_NEW_N(&ctx->arena, struct pb_cluster_host *, a->hosts.n + 1);
    struct pb_cluster_start w = {.name = a->name, .token = a->token};
    const char *bound = pb_json_str(&a->answer, "listening", NULL);
    char own[PB_TOKEN_MAX];
    size_t n = 0;

    for (size_t i = 0; i < a->hosts.n; i++)
        if (!a->hosts.v[i].joined && a->hosts.v[i].address)
            v[n++] = &a->hosts.v[i];
    if (!n || !bound || pb_opt_flag(ctx, "no-start"))
        return 0;
    if (!w.token) {
        if (pb_token_own(own, sizeof own, true, &ctx->err) < 0)
            return -1;
        w.token = pb_arena_strdup(&ctx->arena, own);
    }
    w.port = atoi(strrchr(bound, ':') + 1);
    if (a->hosts.slurm && !pb_opt_flag(ctx, "ssh"))
        pb_cluster_start_slurm(ctx, &w, a->hosts.slurm, v, n);
    else
        pb_cluster_start_ssh(ctx, &w, v, n);
    return await(a);
}

static const char *ranks_of(struct attaching *a, const struct pb_json *member, uint64_t *ranks)
{
    const struct pb_json *jobs = pb_json_get(member, "jobs");
    struct pb_buf b = PB_BUF_INIT;
    const char *text;

    for (size_t i = 0; jobs && jobs->type == PB_J_ARRAY && i < jobs->n; i++) {
        const char *list = pb_json_str(&jobs->items[i], "ranks", "");
        struct pb_ranges set = {0};

        pb_buf_printf(&b, "%s%s %s", i ? ", " : "ranks ", list,
                      pb_json_str(&jobs->items[i], "script", ""));
        if (*list && pb_ranges_parse(&set, list, NULL) == 0)
            *ranks += pb_ranges_count(&set);
        pb_ranges_finish(&set);
    }
    text = pb_arena_strdup(&a->ctx->arena, b.data ? b.data : "");
    pb_buf_finish(&b);
    return text;
}

/* How a member came to be one: as one of the hosts that were wanted, or by itself. */
static const char *how_of(struct attaching *a, const struct pb_json *member)
{
    const struct pb_json *at = pb_json_get(member, "at");

    if (pb_json_flag(member, "self", false))
        return "here";
    for (size_t i = 0; i < a->hosts.n; i++)
        for (size_t k = 0; at && at->type == PB_J_ARRAY && k < at->n; k++)
            if (a->hosts.v[i].how && at->items[k].type == PB_J_STRING &&
                is_of(a, &a->hosts.v[i], at->items[k].s))
                return a->hosts.v[i].how;
    return "member";
}

static void put_row(const char **cell, const char *node, const char *address, const char *state,
                    const char *ranks)
{
    cell[0] = node;
    cell[1] = address;
    cell[2] = state;
    cell[3] = ranks;
}

/* All members, then the machines that were wanted and are none. */
static void print_hosts(struct attaching *a)
{
    static const struct pb_column columns[] = {{.title = "node"}, {.title = "address"},
                                               {.title = "state"}, {.title = "ranks"}};
    enum { N = sizeof columns / sizeof *columns };
    struct pb_ctx *ctx = a->ctx;
    const struct pb_json *v = pb_json_get(&a->members, "members");
    size_t n = v && v->type == PB_J_ARRAY ? v->n : 0;
    struct pb_table t = {.columns = columns, .ncolumns = N};
    const char **cell = PB_NEW_N(&ctx->arena, const char *, (n + a->hosts.n + 1) * N);
    uint64_t ranks = 0, nodes = 0;

    t.cells = cell;
    for (size_t i = 0; i < n; i++) {
        const struct pb_json *m = &v->items[i];

        if (strcmp(pb_json_str(m, "state", ""), "alive") != 0)
            continue;
        put_row(cell + N * t.nrows++, pb_json_str(m, "host", ""), pb_json_str(m, "address", ""),
                how_of(a, m), ranks_of(a, m, &ranks));
        nodes++;
    }
    for (size_t i = 0; i < a->hosts.n; i++) {
        const struct pb_cluster_host *h = &a->hosts.v[i];

        if (h->joined)
            continue;
        put_row(cell + N * t.nrows++, h->name, h->address,
                h->how ? pb_arena_printf(&ctx->arena, "%s, has not come", h->how)
                       : pb_arena_printf(&ctx->arena, "missing: %s",
                                         h->why ? h->why : "does not answer"), "");
    }
    pb_table_print(&ctx->out, &t);
    pb_print_f(&ctx->out, "cluster '%s': %llu node%s, %llu rank%s%s\n",
               pb_json_str(&a->answer, "name", ""), (unsigned long long)nodes,
               nodes == 1 ? "" : "s", (unsigned long long)ranks, ranks == 1 ? "" : "s",
               pb_json_flag(&a->answer, "observer", false)
                   ? "; this node asks them and is not asked"
                   : "");
}

/* What is missing makes no error as long as somebody is there: it is said, and may come later. */
static int report(struct attaching *a)
{
    struct pb_ctx *ctx = a->ctx;
    size_t joined = 0, missing = 0;
    const char *why = NULL, *who = NULL;

    for (size_t i = 0; i < a->hosts.n; i++) {
        const struct pb_cluster_host *h = &a->hosts.v[i];

        joined += h->joined;
        missing += !h->joined;
        if (!h->joined && !who) {
            who = h->name;
            why = h->why;
        }
    }
    if (!pb_opt_flag(ctx, "quiet"))
        print_hosts(a);
    if (missing && !joined && !a->hosts.found)
        return pb_err_set(&ctx->err, PB_NO_TARGET, "%s: %s%s", who, why ? why : "does not answer",
                          missing > 1 ? ", nor do the others" : "");
    return 0;
}

/* For srun, whose step ends everything that was started in it when it ends. */
static void stay(void)
{
    struct pb_serve_paths paths;

    while (pb_serve_paths_find(&paths, NULL) == 0 && pb_serve_answers(paths.socket))
        sleep(STAY_S);
}

static void read_port(struct attaching *a)
{
    struct pb_settings s;
    char note[160];

    pb_settings_init(&s);
    pb_settings_read_env(&s, note, sizeof note);
    a->first_port = (int)s.v[PB_SET_CLUSTER_PORT];
}

int pb_cluster_attach(struct pb_ctx *ctx)
{
    struct attaching a = {.ctx = ctx, .name = pb_opt_str(ctx, "name", NULL)};
    int rc;

    if (ctx->remote)
        return pb_err_set(&ctx->err, PB_USAGE, "to look at the cluster of %s from here: probing "
                                               "cluster attach --observe %s", ctx->remote,
                          ctx->remote);
    read_port(&a);
    if (find_token(&a) < 0 || pb_cluster_find(ctx, ctx->args + 1, ctx->nargs - 1, &a.hosts) < 0 ||
        pb_nodelink_open(ctx, &a.node) < 0)
        return -1;
    rc = ask_node(&a);
    if (rc == 0) {
        take_seeds(&a);
        rc = start_missing(&a);
    }
    if (rc == 0)
        rc = read_members(&a);
    if (rc == 0)
        rc = report(&a);
    pb_nodelink_close(&a.node);
    if (rc == 0 && pb_opt_flag(ctx, "stay")) {
        pb_print_flush(&ctx->out, NULL);
        stay();
    }
    return rc;
}
