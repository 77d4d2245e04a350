/*
 * settings_json.h - settings as an answer.
 *
 * Owns: nothing. Threads: one.
 * Fails: answers with the error.
 * Not here: what settings there are (base/settings.def), setting them (route_configure.c).
 */
#ifndef PB_NODE_HTTP_SETTINGS_JSON_H
#define PB_NODE_HTTP_SETTINGS_JSON_H

#include "node/http/request.h"

/* key: one of them, or NULL for all. A process without an agent has the defaults. */
void pb_settings_reply(struct pb_request *rq, const struct pb_scope *scope, const char *key);

#endif
