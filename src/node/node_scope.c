#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/home.h"
#include "host/os/crash_files.h"
#include "host/process/proc.h"
#include "node/discover/mount_view.h"
#include "node/discover/internal.h"
#include "node/parts.h"

#define TARGETS_MAX 4096
/* Rows about a process that others wrote may be younger than its own last row. */
#define SLACK_NS 2000000000ll
#define SEEN_MS 30000

struct search {
    struct pb_node *node;
    struct pb_stores *stores;
    struct pb_arena *arena;
    pid_t pid;
    uint64_t start;
    uid_t uid;
    bool exact; /* start and uid were given */
};

static bool fits(const struct search *s, const struct pb_scope_process *p)
{
    return p->pid == s->pid && (!s->exact || p->start == s->start);
}

/*
 * The living one, or among the dead the one that died last; by its number here or inside. What
 * another user left under this number comes behind all that our own processes left.
 */
static const struct pb_scope_process *newest_match(const struct search *s, bool live, bool foreign)
{
    const struct pb_scope_process *best = NULL;

    for (size_t i = 0; i < s->stores->nstores; i++) {
        const struct pb_store *store = s->stores->stores[i];
        const struct pb_scope_process *p = &store->process;
        bool match = fits(s, p) ||
                     (s->exact && store->ns_pid == s->pid && p->start == s->start);

        if (match && p->live == live && store->foreign == foreign &&
            (!s->exact || s->uid == geteuid() || s->uid == store->uid) &&
            (!best || p->until_ns > best->until_ns))
            best = p;
    }
    return best;
}

static const struct pb_scope_process *among_stores(const struct search *s, bool live)
{
    const struct pb_scope_process *own = newest_match(s, live, false);

    return own ? own : newest_match(s, live, true);
}

/* A process that has no store. */
static bool find_living(const struct search *s, struct pb_scope_process *ret)
{
    uint64_t start = pb_home_start_time(s->pid);
    struct pb_proc_status st;

    if (s->node->opts.store_dir || !start || (s->exact && start != s->start) ||
        pb_proc_status(&st, s->pid, NULL) < 0 || st.tgid != s->pid)
        return false;
    *ret = (struct pb_scope_process){.pid = s->pid, .start = start, .live = true,
                                     .since_ns = pb_process_since_ns(start),
                                     .until_ns = INT64_MAX};
    pb_process_key(ret->id, s->pid, start, st.euid);
    return true;
}

static bool archived(const struct search *s, struct pb_scope_process *ret)
{
    struct pb_archive_process *v;
    size_t n = s->node->archive ? pb_archive_processes(s->node->archive, s->arena, &v) : 0;
    bool found = false, found_own = false;

    for (size_t i = 0; i < n; i++) {
        struct pb_scope_process p = {.until_ns = v[i].last_ns + SLACK_NS};
        uid_t uid;
        bool own;

        if (!pb_process_key_parse(v[i].id, &p.pid, &p.start, &uid) || !fits(s, &p) ||
            (s->exact && s->uid != geteuid() && s->uid != uid))
            continue;
        own = uid == geteuid();
        if (found && (found_own > own || (found_own == own && p.until_ns <= ret->until_ns)))
            continue;
        found_own = own;
        snprintf(p.id, sizeof p.id, "%s", v[i].id);
        p.since_ns = pb_process_since_ns(p.start);
        if (p.since_ns > v[i].last_ns)
            p.since_ns = 0; /* of another boot */
        *ret = p;
        found = true;
    }
    return found;
}

/* When a process that had no agent was last looked at, and since when without a long break. */
static const char seen_sql[] =
    "WITH t AS (SELECT timestamp AS seen,"
    " timestamp - lag(timestamp) OVER (ORDER BY timestamp) AS gap"
    " FROM system.cpu WHERE pid = %d) SELECT epoch_us(max(seen)),"
    " epoch_us(max(seen) FILTER (gap IS NULL OR gap > INTERVAL 60 SECOND)) FROM t";

/* Did any node look at processes from outside? */
static bool has_samples(const struct search *s)
{
    for (size_t i = 0; i < s->stores->nstores; i++)
        for (size_t k = 0; k < s->stores->stores[i]->nrings; k++)
            if (strcmp(s->stores->stores[i]->rings[k]->reader.name, "system.cpu") == 0)
                return true;
    return s->node->archive;
}

/* Nobody wrote rows inside it, but the node took some from outside. */
static bool sampled(const struct search *s, struct pb_scope_process *ret)
{
    static const struct pb_scope all = {.all = true};
    const char *sql = pb_arena_printf(s->arena, seen_sql, (int)s->pid);
    int64_t seen_us[2]; /* last, and since */

    if (s->exact || !has_samples(s) ||
        !pb_sql_ask(s->node->sql, &all, SEEN_MS, sql, seen_us, 2) || seen_us[0] == PB_NULL_INT ||
        seen_us[1] == PB_NULL_INT)
        return false;
    *ret = (struct pb_scope_process){.pid = s->pid,
                                     .since_ns = seen_us[1] * 1000 - SLACK_NS,
                                     .until_ns = seen_us[0] * 1000 + SLACK_NS};
    snprintf(ret->id, sizeof ret->id, "%d-0", (int)s->pid);
    return true;
}

/* It ended before it had written rows, but a report tells of its crash. */
static bool crashed(const struct search *s, struct pb_scope_process *ret)
{
    struct pb_err ignored = {0};
    struct pb_crash_file *v = NULL;
    size_t n = 0;

    if (s->exact || !s->node->opts.data_dir ||
        pb_crash_files_list(s->node->opts.data_dir, s->arena, &v, &n, &ignored) < 0)
        return false;
    for (size_t i = 0; i < n; i++) { /* the newest first */
        int64_t time_ns = pb_json_whole(v[i].head, "time_ns", 0);

        if (pb_json_whole(v[i].head, "pid", 0) != s->pid)
            continue;
        *ret = (struct pb_scope_process){.pid = s->pid, .since_ns = time_ns - SLACK_NS,
                                         .until_ns = time_ns + SLACK_NS};
        snprintf(ret->id, sizeof ret->id, "%d-0", (int)s->pid);
        return true;
    }
    return false;
}

/* The number may be another's by now; what came later is not this one's. */
static void end_before_the_next(const struct search *s, struct pb_scope_process *p)
{
    uint64_t start = s->node->opts.store_dir ? 0 : pb_home_start_time(p->pid);

    if (p->live)
        return;
    if (start > p->start && pb_process_since_ns(start) < p->until_ns)
        p->until_ns = pb_process_since_ns(start);
    for (size_t i = 0; i < s->stores->nstores; i++) {
        const struct pb_scope_process *q = &s->stores->stores[i]->process;

        if (q->pid == p->pid && q->start != p->start && q->since_ns > p->since_ns &&
            q->since_ns < p->until_ns)
            p->until_ns = q->since_ns;
    }
}

static void search_all(struct search *s)
{
    pb_stores_unref(s->stores);
    s->stores = pb_discover_snapshot(s->node->discover, -1);
}

static int find(struct search *s, struct pb_scope_process *ret, struct pb_err *err)
{
    const struct pb_scope_process *p = among_stores(s, true);
    bool plain = !p && find_living(s, ret);

    if (plain && pb_mount_view_is_other(s->pid)) {
        search_all(s);
        p = among_stores(s, true);
    }
    if (!p && !plain)
        p = among_stores(s, false);
    if (p)
        *ret = *p;
    else if (!plain && !archived(s, ret) && !sampled(s, ret) && !crashed(s, ret))
        return pb_err_set(err, PB_NO_TARGET, "%d: no such process, and none that left rows",
                          (int)s->pid);
    end_before_the_next(s, ret);
    return 0;
}

/* One word of the list: "1234", "1234-5678" or "1234-5678-1000". */
static int find_word(struct search *s, const char *word, struct pb_scope_process *ret,
                     struct pb_err *err)
{
    char *end;
    long pid;

    s->exact = pb_process_key_parse(word, &s->pid, &s->start, &s->uid);
    if (!s->exact) {
        pid = strtol(word, &end, 10);
        if (end == word || *end || pid <= 0 || pid > INT32_MAX)
            return pb_err_set(err, PB_NO_TARGET, "'%.60s' is no process", word);
        s->pid = (pid_t)pid;
    }
    return find(s, ret, err);
}

/* Takes the mark off "1234?": a process of a job, which may have ended since it was listed. */
static bool is_optional(char *word)
{
    size_t len = strlen(word);

    if (!len || word[len - 1] != '?')
        return false;
    word[len - 1] = '\0';
    return true;
}

int pb_node_scope(struct pb_node *n, const char *target, struct pb_arena *a,
                  struct pb_scope *ret, struct pb_err *err)
{
    struct search s = {.node = n, .arena = a};
    struct pb_scope_process *v, one;
    size_t count = 1, used = 0;
    char *words, *word;
    int rc = 0;

    *ret = (struct pb_scope){.all = true};
    if (!target || !*target)
        return 0;
    for (const char *p = target; *p; p++)
        count += *p == ',';
    if (count > TARGETS_MAX)
        return pb_err_set(err, PB_USAGE, "more than %d targets", TARGETS_MAX);
    v = PB_NEW_N(a, struct pb_scope_process, count);
    words = pb_arena_strdup(a, target);
    s.stores = pb_discover_snapshot(n->discover, 0);
    while (rc == 0 && (word = strsep(&words, ","))) {
        bool optional = is_optional(word);
        struct pb_err missing = {0};

        rc = find_word(&s, word, &one, optional ? &missing : err);
        *ret = (struct pb_scope){.processes = v, .nprocesses = used};
        if (rc == 0 && !pb_scope_has_id(ret, one.id))
            v[used++] = one;
        if (rc < 0 && optional)
            rc = 0;
    }
    pb_stores_unref(s.stores);
    *ret = (struct pb_scope){.processes = v, .nprocesses = used};
    if (rc == 0 && !used)
        return pb_err_set(err, PB_NO_TARGET, "all of these processes have ended and left no rows");
    return rc;
}
