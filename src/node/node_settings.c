#include <string.h>

#include "host/net/agent_client.h"
#include "host/text/buf.h"
#include "host/text/nearest.h"
#include "node/parts.h"
#include "node/node_settings.h"

#define AGENT_TIMEOUT_MS 3000

/* The living process whose settings are meant, the first of several; 0 for the node's own. */
static pid_t whose(const struct pb_scope *scope)
{
    for (size_t i = 0; scope && !pb_scope_is_node(scope) && i < scope->nprocesses; i++)
        if (scope->processes[i].live)
            return scope->processes[i].pid;
    return 0;
}

static void collect(int fd, const void *data, size_t len, void *arg)
{
    if (fd == 1)
        pb_buf_add(arg, data, len);
}

/* Sends lines to the agent of a process; what it says comes into *ret_shown. */
static int ask_agent(pid_t pid, const struct pb_agent_client *client, const char *lines,
                     struct pb_buf *ret_shown, struct pb_err *err)
{
    struct pb_arena a = PB_ARENA_INIT;
    enum pb_wire_result result = PB_WIRE_OK;
    const char *why = NULL;
    struct pb_agent agent;
    int rc = pb_agent_open(&agent, pid, AGENT_TIMEOUT_MS, err);

    if (rc == 0) {
        pb_agent_introduce(&agent, client);
        rc = pb_agent_ask(&agent, PB_WIRE_CONFIG, NULL, 0, lines, strlen(lines), AGENT_TIMEOUT_MS,
                          collect, ret_shown, &a, &result, &why, err);
        pb_agent_close(&agent);
    }
    if (rc == 0 && result != PB_WIRE_OK)
        rc = pb_err_set(err, PB_FAIL, "%d: %s", (int)pid, why ? why : "the agent refused");
    pb_arena_finish(&a);
    return rc;
}

static int unknown(const char *key, size_t len, struct pb_err *err)
{
    char name[PB_SETTING_NAME_MAX] = "";
    const char *best;

    if (len > 8 && memcmp(key, "probing.", 8) == 0) {
        key += 8;
        len -= 8;
    }
    strncat(name, key, len < sizeof name ? len : sizeof name - 1);
    best = pb_nearest_setting(name);
    return pb_err_set(err, PB_USAGE, "no setting '%s'%s%s", name, best ? "; nearest: " : "",
                      best ? best : "");
}

int pb_node_settings_read(struct pb_node *n, const struct pb_scope *scope, struct pb_settings *ret,
                          struct pb_err *err)
{
    pid_t pid = whose(scope);
    struct pb_buf shown = PB_BUF_INIT;
    struct pb_err asked = {0};
    int rc;

    pb_settings_init(ret);
    if (!pid) {
        for (int i = 0; i < PB_SETTING_COUNT; i++)
            ret->v[i] = pb_node_setting(n, (enum pb_setting_id)i);
        pb_settings_set(ret, PB_SET_LAKE_PATH, n->lake, strlen(n->lake), NULL);
        return 0;
    }
    rc = ask_agent(pid, scope->client, "", &shown, &asked);
    /* A process without an agent has the defaults. */
    if (rc < 0 && asked.code == PB_NO_TARGET)
        rc = 0;
    else if (rc < 0)
        *err = asked;
    else if (shown.len)
        rc = pb_settings_apply_lines(ret, shown.data, shown.len, NULL);
    pb_buf_finish(&shown);
    return rc;
}

static int set_own(struct pb_node *n, int index, const char *line, struct pb_err *err)
{
    struct pb_settings s;
    int64_t before;

    if (pb_settings_whose(index) == PB_OF_PROCESS)
        return pb_err_set(err, PB_USAGE, "%s is a setting of processes: give a target",
                          pb_setting_list[index].name);
    pb_node_settings_read(n, NULL, &s, NULL);
    before = s.v[index];
    if (pb_settings_apply(&s, line, strlen(line), err) < 0)
        return -1;
    if (index == PB_SET_QUERY_MEMORY && s.v[index] != before)
        return pb_err_set(err, PB_USAGE, "query.memory_mb is read when a node starts: "
                                         "PROBING_QUERY_MEMORY_MB=%lld, after probing serve --stop",
                          (long long)s.v[index]);
    if (index == PB_SET_LAKE_PATH && strcmp(pb_settings_text(&s, index), n->lake) != 0)
        return pb_err_set(err, PB_USAGE, "lake.path is read when a node starts: "
                                         "PROBING_LAKE_PATH=%s, after probing serve --stop",
                          pb_settings_text(&s, index));
    for (int i = 0; i < PB_SETTING_COUNT; i++)
        atomic_store(&n->settings[i], s.v[i]);
    if (n->archive)
        pb_archive_configure(n->archive, &s);
    return 0;
}

/* Every living process in scope; the first that refuses ends it, and is named. */
static int set_each(const struct pb_scope *scope, const char *line, struct pb_err *err)
{
    size_t told = 0;

    for (size_t i = 0; i < scope->nprocesses; i++) {
        struct pb_buf shown = PB_BUF_INIT;
        int rc = 0;

        if (!scope->processes[i].live)
            continue;
        rc = ask_agent(scope->processes[i].pid, scope->client, line, &shown, err);
        pb_buf_finish(&shown);
        if (rc < 0 && told)
            return pb_err_prefix(err, "set in %zu processes, then", told);
        if (rc < 0)
            return -1;
        told++;
    }
    return told ? 0 : pb_err_set(err, PB_NO_TARGET, "%d: has ended; only its rows are left",
                                 scope->nprocesses ? (int)scope->processes[0].pid : 0);
}

int pb_node_settings_write(struct pb_node *n, const struct pb_scope *scope, const char *line,
                           struct pb_err *err)
{
    size_t len = strcspn(line, "=");
    struct pb_settings checked;
    int index, rc;

    while (len && line[len - 1] == ' ')
        len--;
    index = pb_settings_find(line, len);
    if (index < 0)
        return unknown(line, len, err);
    if (scope && scope->no_control)
        return pb_err_set(err, PB_DENIED, "settings can be changed with a token of scope control");
    if (scope && scope->bounded && pb_scope_is_node(scope))
        return pb_err_set(err, PB_DENIED, "the node's own settings are out of this token's reach");
    if (!scope || pb_scope_is_node(scope)) {
        rc = set_own(n, index, line, err);
        if (rc == 0)
            atomic_store(&n->chosen[index], true);
        return rc;
    }
    if (pb_settings_whose(index) == PB_OF_NODE)
        return pb_err_set(err, PB_USAGE, "%s is a setting of the node, not of a process: set it "
                                         "without a target", pb_setting_list[index].name);
    pb_settings_init(&checked);
    if (pb_settings_apply(&checked, line, strlen(line), err) < 0)
        return -1;
    return set_each(scope, line, err);
}

int pb_node_suggest(struct pb_node *n, const struct pb_scope *scope, const char *key,
                    const char *value, struct pb_err *err)
{
    int index = pb_settings_find(key, strlen(key));
    struct pb_arena a = PB_ARENA_INIT;
    int rc = 0;

    if (!pb_scope_is_node(scope) || scope->bounded || scope->no_control)
        return pb_err_set(err, PB_DENIED, "the node's own settings are out of this token's reach");
    if (index >= 0 && !atomic_load(&n->chosen[index]))
        rc = set_own(n, index, pb_arena_printf(&a, "%s=%s", key, value), err);
    pb_arena_finish(&a);
    return rc;
}

int pb_node_get(struct pb_node *n, const struct pb_scope *scope, const char *key,
                struct pb_arena *a, struct pb_node_value **ret, size_t *ret_n, struct pb_err *err)
{
    int only = key ? pb_settings_find(key, strlen(key)) : -1;
    char value[PB_SETTING_VALUE_MAX];
    struct pb_node_value *v;
    struct pb_settings s;
    size_t used = 0;

    if (key && only < 0)
        return unknown(key, strlen(key), err);
    if (pb_node_settings_read(n, scope, &s, err) < 0)
        return -1;
    v = PB_NEW_N(a, struct pb_node_value, PB_SETTING_COUNT);
    for (int i = 0; i < PB_SETTING_COUNT; i++) {
        if (key && i != only)
            continue;
        v[used].name = pb_setting_list[i].name;
        v[used].doc = pb_setting_list[i].doc;
        pb_settings_show(&s, i, value);
        v[used].value = pb_arena_strdup(a, value);
        pb_settings_format(i, pb_setting_list[i].default_value, value);
        v[used++].default_value = pb_arena_strdup(a, value);
    }
    *ret = v;
    *ret_n = used;
    return 0;
}

int pb_node_set(struct pb_node *n, const struct pb_scope *scope, const char *key,
                const char *value, struct pb_err *err)
{
    struct pb_arena a = PB_ARENA_INIT;
    int rc = pb_node_settings_write(n, scope, pb_arena_printf(&a, "%s=%s", key, value), err);

    pb_arena_finish(&a);
    return rc;
}
