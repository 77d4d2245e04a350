#include "node/query/why.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "node/discover/pythons.h"
#include "node/sample/sampler.h"
#include "node/sql/text/text.h"
#include "node/stacks/cache.h"
#include "node/tables/read/common.h"

enum { LINES_MAX = 3, SAMPLERS_MAX = 64, ASK_MS = 500 };

struct why {
    struct pb_node *node;
    const struct pb_scope *scope;
    struct pb_arena arena;
    struct pb_stores *stores;
    struct pb_buf *notices;
    size_t lines;
};

static void add_notice(struct why *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Once each: two tables of one collector have one reason. */
static void add_notice(struct why *w, const char *fmt, ...)
{
    struct pb_buf line = PB_BUF_INIT;
    va_list ap;

    va_start(ap, fmt);
    pb_buf_vprintf(&line, fmt, ap);
    va_end(ap);
    pb_buf_putc(&line, '\n');
    if (w->lines < LINES_MAX && (!w->notices->data || !strstr(w->notices->data, line.data))) {
        pb_buf_add(w->notices, line.data, line.len);
        w->lines++;
    }
    pb_buf_finish(&line);
}

static const struct pb_store *agent_of(const struct why *w, pid_t pid)
{
    for (size_t i = 0; i < w->stores->nstores; i++) {
        const struct pb_store *s = w->stores->stores[i];

        if (s->process.live && s->process.pid == pid)
            return s;
    }
    return NULL;
}

/* Living processes in scope, and which of them have an agent that is at work. */
struct population {
    struct pb_live_process *v;
    size_t n;
    const struct pb_store **agents;
    size_t nagents;
};

static bool is_working(struct why *w, const struct pb_store *s)
{
    const char *state = s ? pb_store_value(s->status, "agent.state", &w->arena) : NULL;

    return s && !pb_store_value(s->meta, "role", &w->arena) &&
           (!state || strcmp(state, "running") == 0);
}

static struct population look(struct why *w)
{
    struct population p = {0};

    p.n = pb_live_processes(w->node, w->scope, false, &w->arena, &p.v);
    p.agents = PB_NEW_N(&w->arena, const struct pb_store *, p.n + 1);
    for (size_t i = 0; i < p.n; i++) {
        const struct pb_store *s = agent_of(w, p.v[i].pid);

        if (is_working(w, s))
            p.agents[p.nagents++] = s;
    }
    return p;
}

/* Nobody in scope lives. */
static void say_ended(struct why *w, const char *table)
{
    if (pb_scope_is_node(w->scope))
        add_notice(w, "no Python process runs here%s",
                   w->scope->all ? "" : "; rows of ended ones: query --dead");
    else if (w->scope->nprocesses == 1)
        add_notice(w, "process %d has ended and left no rows in %s",
                   (int)w->scope->processes[0].pid, table);
    else
        add_notice(w, "these processes have ended and left no rows in %s", table);
}

static void say_unprobed(struct why *w, const struct population *p)
{
    if (p->n == 1)
        add_notice(w, "no probes in process %d: probing %d inject", (int)p->v[0].pid,
                   (int)p->v[0].pid);
    else
        add_notice(w,
                   "no probes in any of %zu processes: probing PID inject, or job:SCRIPT for a job",
                   p->n);
}

/* "on", "waiting" or "off" of a collector, and the reason behind it. */
static const char *collector_state(struct why *w, const struct pb_store *s, const char *name,
                                   const char **ret_reason)
{
    const char *key = pb_arena_printf(&w->arena, "collector.%s", name);
    char *state = (char *)pb_store_value(s->status, key, &w->arena), *colon;

    *ret_reason = NULL;
    if (!state)
        return "off";
    colon = strstr(state, ": ");
    if (colon) {
        *colon = '\0';
        *ret_reason = colon + 2;
    }
    return state;
}

/* What fills each table of the agent, and what it means that nothing did. */
static const struct filled {
    const char *table, *collector, *setting, *nothing;
} filled[] = {
    {"python.memory", "memory", "memory.collect", "no row yet: the first one comes a second after "
                                                  "the probes"},
    {"python.torch_trace", "torch", "torch.collect", "no module was called since the probes came"},
    {"python.training_logs", "torch", "torch.collect", "no training step has ended since the "
                                                       "probes came"},
    {"python.comm", "torch_comm", "torch.comm", "no collectives seen since the probes came"},
    {"python.alloc", "alloc", "memory.sites", "no allocation was sampled since memory.sites is on"},
    {"python.out_of_memory", "torch", "torch.collect", "no out-of-memory error seen"},
    {"python.profile_ops", NULL, NULL, "no profile was taken: probing PID profile"},
    {"python.spans", NULL, NULL, "the program has opened no probing.span()"},
    {"python.events", NULL, NULL, "the program has written no probing.event()"},
    {"probing.audit", NULL, NULL, "nothing was evaluated or set"},
};

static const struct filled *filled_by(const char *table)
{
    for (size_t i = 0; i < sizeof filled / sizeof *filled; i++)
        if (strcmp(filled[i].table, table) == 0)
            return &filled[i];
    return NULL;
}

/* Of several agents, the one that is furthest: another one may just not use torch. */
static void say_collector(struct why *w, const struct population *p, const struct filled *f)
{
    const char *best = NULL, *reason = NULL;
    pid_t pid = 0;

    for (size_t i = 0; f->collector && i < p->nagents; i++) {
        const char *why, *state = collector_state(w, p->agents[i], f->collector, &why);

        if (best && (strcmp(best, "on") == 0 || strcmp(state, "off") == 0))
            continue;
        best = state;
        reason = why;
        pid = p->agents[i]->process.pid;
    }
    if (!best || strcmp(best, "on") == 0)
        add_notice(w, "%s: %s", f->table, f->nothing);
    else if (strcmp(best, "waiting") == 0 && (!reason || strcmp(reason, "torch") == 0))
        add_notice(w, "%s: torch is not imported in process %d", f->table, (int)pid);
    else if (strcmp(best, "off") == 0 && !reason)
        add_notice(w, "%s: switched off in process %d: probing %d config %s=on", f->table, (int)pid,
                   (int)pid, f->setting);
    else
        add_notice(w, "%s: %s in process %d: %s", f->table, best, (int)pid, reason);
}

static void why_agent_table(struct why *w, const char *table)
{
    struct population p = look(w);
    const struct filled *f = filled_by(table);

    if (w->node->opts.store_dir)
        add_notice(w, "%s: no rows in this folder", table);
    else if (!p.n)
        say_ended(w, table);
    else if (!p.nagents)
        say_unprobed(w, &p);
    else if (f)
        say_collector(w, &p, f);
    else
        add_notice(w, "%s: the program has written no rows of it yet", table);
}

/* What the node measures from outside. */
static void why_sampled(struct why *w, const char *table)
{
    struct pb_sampler_status v[SAMPLERS_MAX];
    size_t n = w->node->samplers ? pb_samplers_status(w->node->samplers, v, SAMPLERS_MAX) : 0;
    uint64_t age_s = (pb_clock_ns() - w->node->started_ns) / 1000000000u;

    for (size_t i = 0; i < n; i++) {
        if (strcmp(v[i].name, table) != 0)
            continue;
        if (strcmp(v[i].state, "on") != 0)
            add_notice(w, "%s: %s", table, v[i].reason[0] ? v[i].reason : v[i].state);
        else if (strcmp(table, "gpu.process") == 0)
            add_notice(w, "%s: no process here uses a GPU", table);
        else
            add_notice(w, "%s: nothing measured yet; the node runs for %llu s", table,
                       (unsigned long long)age_s);
        return;
    }
    add_notice(w, "%s: no rows in this folder", table);
}

static void why_live(struct why *w, const char *table)
{
    struct population p = look(w);
    char trouble[160] = "";

    if (strncmp(table, "python.", 7) != 0 && strcmp(table, "nccl.ras") != 0)
        return;
    if (!p.n) {
        if (pb_scope_is_node(w->scope) || w->node->opts.store_dir)
            add_notice(w, "no Python process runs here, and %s is about living ones", table);
        else
            add_notice(w, "process %d has ended, and %s is about living ones",
                       w->scope->nprocesses ? (int)w->scope->processes[0].pid : 0, table);
        return;
    }
    if (strcmp(table, "nccl.ras") == 0) {
        add_notice(w, "nccl.ras: no process here has NCCL 2.24 or later at work");
    } else if (strcmp(table, "python.flight_recorder") == 0) {
        if (p.nagents)
            add_notice(w, "python.flight_recorder: torch has noted no collectives");
        else
            say_unprobed(w, &p);
    } else if (strcmp(table, "python.progress") == 0) {
        if (p.nagents)
            add_notice(w, "python.progress: no probed process here trains or communicates");
        else
            say_unprobed(w, &p);
    } else if (p.n == 1) {
        pb_stack_cache_trouble(w->node->stacks, p.v[0].pid, trouble, sizeof trouble);
        if (trouble[0])
            add_notice(w, "%s", trouble);
    }
}

/* Views whose being empty is the good news. */
static const char *reason_when_fine(const char *view)
{
    static const char *const news[][2] = {
        {"hung_collectives", "no collective waits for a rank"},
        {"data_stalls", "no step waited for data"},
        {"slow_ranks", "no two ranks to compare"},
        {"rank_steps", "no step of a job of several ranks has ended yet"},
        {"memory_growth", "fewer than three steps with memory were seen"},
        {"slowest_modules", "no step was traced by module yet"},
        {"step_breakdown", "no step has ended yet"},
    };

    for (size_t i = 0; i < sizeof news / sizeof *news; i++)
        if (strcmp(news[i][0], view) == 0)
            return news[i][1];
    return NULL;
}

static bool has_word(const char *sql, const char *word)
{
    size_t len = strlen(sql), pos = 0;
    struct pb_sql_token t;

    while ((t = pb_sql_next(sql, len, &pos)).kind != PB_SQL_END)
        if (pb_sql_is(sql, t, word))
            return true;
    return false;
}

/* The tables have rows; then it was the question. */
static void why_filtered(struct why *w, const struct pb_sql_source *v, size_t n, const char *sql)
{
    bool filters = has_word(sql, "where") || has_word(sql, "having");
    int64_t row[2]; /* age of the newest in seconds, how many */

    for (size_t i = 0; i < n; i++) {
        const char *news = v[i].view && !filters ? reason_when_fine(v[i].name) : NULL;

        if (news)
            add_notice(w, "%s: %s", v[i].name, news);
    }
    for (size_t i = 0; filters && i < n; i++) {
        const char *sql_of = pb_arena_printf(
            &w->arena, "SELECT (epoch(now()) - epoch(max(timestamp)))::BIGINT, count(*) FROM %s",
            v[i].name);

        if (!v[i].timed || !pb_sql_ask(w->node->sql, w->scope, ASK_MS, sql_of, row, 2) ||
            row[0] == PB_NULL_INT)
            continue;
        add_notice(w, "none of the rows fits; %s has %lld, the newest %lld s old", v[i].name,
                   (long long)row[1], (long long)row[0]);
        return;
    }
}

/*
 * Has a ring's table no row in scope? Live ones are asked about only when all was empty. Of a table
 * that does not answer in time nothing is known.
 */
static bool is_empty(struct why *w, const struct pb_sql_source *s)
{
    const char *sql = pb_arena_printf(
        &w->arena, "SELECT count(*) FROM (SELECT 1 FROM %s LIMIT 1)", s->name);
    int64_t rows;

    return !s->view && !s->live && pb_sql_ask(w->node->sql, w->scope, ASK_MS, sql, &rows, 1) &&
           rows == 0;
}

void pb_why_empty(struct pb_node *n, const struct pb_scope *scope, const char *sql,
                  struct pb_sql_done *done)
{
    struct why w = {.node = n, .scope = scope, .notices = &done->notices};
    struct pb_sql_source *v;
    size_t count, empty = 0;

    if (done->rows > 1)
        return;
    count = pb_sql_sources(n->sql, sql, &w.arena, &v);
    if (!count) {
        pb_arena_finish(&w.arena);
        return;
    }
    w.stores = pb_discover_snapshot(n->discover, 100);
    for (size_t i = 0; i < count; i++) {
        if (done->rows == 0 && v[i].live) {
            why_live(&w, v[i].name);
        } else if (is_empty(&w, &v[i])) {
            empty++;
            if (strncmp(v[i].name, "system.", 7) == 0 || strncmp(v[i].name, "gpu.", 4) == 0)
                why_sampled(&w, v[i].name);
            else
                why_agent_table(&w, v[i].name);
        }
    }
    if (done->rows == 0 && !empty && !w.lines)
        why_filtered(&w, v, count, sql);
    pb_stores_unref(w.stores);
    pb_arena_finish(&w.arena);
}
