/*
 * node_settings.h - settings as SQL sees them: of one process, or of the node.
 *
 * Owns: nothing. Threads: any.
 * Fails: with the nearest name, the limits, or what the agent said.
 * Not here: what others use (node.h), what a setting does.
 */
#ifndef PB_NODE_NODE_SETTINGS_H
#define PB_NODE_NODE_SETTINGS_H

#include "base/settings.h"
#include "node/node.h"

/* As struct pb_sql_settings wants them. */
int pb_node_settings_read(struct pb_node *n, const struct pb_scope *scope, struct pb_settings *ret,
                          struct pb_err *err);
int pb_node_settings_write(struct pb_node *n, const struct pb_scope *scope, const char *line,
                           struct pb_err *err);

#endif
