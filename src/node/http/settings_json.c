#include "node/http/settings_json.h"

#include <string.h>

#include "base/settings.h"
#include "host/text/json_write.h"
#include "node/parts.h"

/* Who reads it: where else it stands, it is refused. */
static const char *whose(const char *name)
{
    static const char *const words[] = {
        [PB_OF_PROCESS] = "process", [PB_OF_NODE] = "node", [PB_OF_BOTH] = "both"};
    int index = pb_settings_find(name, strlen(name));

    return words[index < 0 ? PB_OF_BOTH : pb_settings_whose(index)];
}

static void add(struct pb_buf *b, const struct pb_node_value *v)
{
    pb_json_comma(b);
    pb_buf_putc(b, '{');
    pb_json_key(b, "name");
    pb_json_string(b, v->name);
    pb_json_key(b, "value");
    pb_json_string(b, v->value);
    pb_json_key(b, "default");
    pb_json_string(b, v->default_value);
    pb_json_key(b, "doc");
    pb_json_string(b, v->doc);
    pb_json_key(b, "of");
    pb_json_string(b, whose(v->name));
    pb_buf_putc(b, '}');
}

/* As they are before anybody set anything. */
static size_t defaults(struct pb_arena *a, const char *key, struct pb_node_value **ret)
{
    struct pb_node_value *all = PB_NEW_N(a, struct pb_node_value, PB_SETTING_COUNT);
    int only = key ? pb_settings_find(key, strlen(key)) : -1;
    size_t n = 0;

    for (int i = 0; i < PB_SETTING_COUNT; i++) {
        char value[PB_SETTING_VALUE_MAX];

        if (key && i != only)
            continue;
        pb_settings_format(i, pb_setting_list[i].default_value, value);
        all[n].name = pb_setting_list[i].name;
        all[n].doc = pb_setting_list[i].doc;
        all[n].value = all[n].default_value = pb_arena_strdup(a, value);
        n++;
    }
    *ret = all;
    return n;
}

void pb_settings_reply(struct pb_request *rq, const struct pb_scope *scope, const char *key)
{
    struct pb_node_value *values = NULL;
    struct pb_buf b = PB_BUF_INIT;
    struct pb_err err = {0};
    bool probed = true;
    size_t n = 0;

    if (pb_node_get(rq->node, scope, key, rq->arena, &values, &n, &err) < 0) {
        if (err.code != PB_NO_TARGET || pb_scope_is_node(scope)) {
            pb_reply_error(rq, &err, -1, NULL);
            return;
        }
        probed = false;
        n = defaults(rq->arena, key, &values);
    }
    pb_buf_puts(&b, "{\"of\":");
    pb_json_string(&b, pb_scope_is_node(scope) || scope->nprocesses != 1
                           ? "node"
                           : scope->processes[0].id);
    pb_json_key(&b, "probed");
    pb_json_bool(&b, probed);
    pb_json_key(&b, "settings");
    pb_buf_putc(&b, '[');
    for (size_t i = 0; i < n; i++)
        add(&b, &values[i]);
    pb_buf_puts(&b, "]}");
    pb_reply_json(rq, &b);
    pb_buf_finish(&b);
}
