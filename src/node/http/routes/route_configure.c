/*
 * POST /api/config - sets settings of a process, or of the node.
 */
#include <string.h>

#include "base/settings.h"
#include "node/http/settings_json.h"
#include "node/parts.h"

static void run(struct pb_request *rq);

const struct pb_route pb_route_configure = {
    .method = "POST",
    .path = "/api/config",
    .doc = "sets settings: {target?, set: {key: value}}",
    .run = run,
    .needs = PB_RIGHT_CONTROL,
};

/* A value as it would be typed. */
static const char *as_text(const struct pb_json *v)
{
    switch (v->type) {
    case PB_J_STRING:
    case PB_J_INT:
    case PB_J_REAL:
        return v->s;
    case PB_J_BOOL:
        return v->v.b ? "on" : "off";
    default:
        return NULL;
    }
}

/* All are checked before any is set; an unknown key is left to those who know the nearest one. */
static int check(const struct pb_json *set, struct pb_err *err)
{
    if (!set || set->type != PB_J_OBJECT || set->n == 0)
        return pb_err_set(err, PB_USAGE, "no \"set\" with keys and values in the body");
    for (size_t i = 0; i < set->n; i++) {
        const struct pb_json *v = &set->items[i];
        const char *text = as_text(v);
        int index = pb_settings_find(v->key, strlen(v->key));
        int64_t parsed;

        if (!text)
            return pb_err_set(err, PB_USAGE, "%.60s: the value is no text, number or switch",
                              v->key);
        if (index >= 0 && pb_settings_parse(index, text, strlen(text), &parsed, err) < 0)
            return -1;
    }
    return 0;
}

/* What a command has in its environment: all that can be are set, the first reason stays. */
static int suggest_all(struct pb_request *rq, const struct pb_scope *scope,
                       const struct pb_json *set, struct pb_err *err)
{
    int rc = 0;

    for (size_t i = 0; i < set->n; i++)
        if (pb_node_suggest(rq->node, scope, set->items[i].key, as_text(&set->items[i]), err) < 0)
            rc = -1;
    return rc;
}

static int set_all(struct pb_request *rq, const struct pb_scope *scope, struct pb_err *err)
{
    const struct pb_json *set = pb_json_get(rq->body, "set");

    if (check(set, err) < 0)
        return -1;
    if (pb_json_flag(rq->body, "environment", false))
        return suggest_all(rq, scope, set, err);
    /* Unknown keys first: those fail whatever the others say. */
    for (int known = 0; known < 2; known++)
        for (size_t i = 0; i < set->n; i++) {
            const char *key = set->items[i].key;

            if ((pb_settings_find(key, strlen(key)) >= 0) == known &&
                pb_node_set(rq->node, scope, key, as_text(&set->items[i]), err) < 0)
                return -1;
        }
    return 0;
}

static void run(struct pb_request *rq)
{
    struct pb_err err = {0};
    struct pb_scope scope;

    if (pb_request_scope(rq, &scope, &err) < 0 || set_all(rq, &scope, &err) < 0)
        pb_reply_error(rq, &err, -1, NULL);
    else
        pb_settings_reply(rq, &scope, NULL);
}
