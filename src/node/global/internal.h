/*
 * internal.h - what the files of global/ share.
 *
 * Owns: nothing.
 * Threads: as global.h says.
 * Fails: as said at each call.
 */
#ifndef PB_NODE_GLOBAL_INTERNAL_H
#define PB_NODE_GLOBAL_INTERNAL_H

#include "cluster/fan.h"
#include "host/text/json_write.h"
#include "node/global/global.h"
#include "node/parts.h"
#include "node/peers/peers.h"

/* Is it the job of that name? NULL: any. */
bool pb_global_is_of_job(const struct pb_member_job *j, const char *job);
/* Ranks that are asked for and run at no node that is known, as a text; or NULL. */
const char *pb_global_absent(const struct pb_peers_list *list, const struct pb_global_scope *w,
                             struct pb_arena *a);
/* Ranks of one job that run at several nodes, by what these say, and at which; or NULL. */
const char *pb_global_twice(const struct pb_peers_list *list, const struct pb_global_scope *w,
                            struct pb_arena *a);
/* Who is to be asked. */
int pb_global_choose(struct pb_node *n, const struct pb_global_scope *w, struct pb_arena *a,
                     struct pb_global_nodes *ret, struct pb_err *err);
/* Asks; v[i] is for node of[i]. How it went is noted there: in `why` when it failed. */
int pb_global_fan(struct pb_node *n, struct pb_fan_one *v, size_t count,
                  struct pb_global_node *const *of, struct pb_fan_request *r, struct pb_arena *a,
                  struct pb_err *err);

#endif
