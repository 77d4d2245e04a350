/*
 * settings.h - settings in SQL: SET probing.a.b = v, SHOW a.b, SHOW ALL, information_schema.
 *
 * Owns: nothing.
 * Threads: any.
 * Fails: with one line; an unknown name with the nearest known one.
 * Not here: where values live (the node's struct pb_sql_settings).
 */
#ifndef PB_NODE_SQL_SETTINGS_H
#define PB_NODE_SQL_SETTINGS_H

#include <stdbool.h>

#include "node/sql/engine.h"
#include "node/rows/live.h"
#include "node/rows/rows.h"

/* information_schema.df_settings: name, value. */
extern const struct pb_live pb_live_df_settings;

/*
 * Handles SET and SHOW of settings. 1: it was one, done, and rows hold the answer (a finished one
 * of no columns for SET); 0: not a statement about settings; -1: failed, *ret_at says where.
 * is_table: what SHOW names is a table.
 */
int pb_sql_setting_statement(struct pb_sql *s, const struct pb_scope *scope, const char *sql,
                             size_t len, bool is_table, struct pb_rows *ret, long *ret_at,
                             struct pb_err *err);

#endif
