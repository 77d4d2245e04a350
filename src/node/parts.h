/*
 * parts.h - what a node is made of, for those rooms that work on it as a whole: http/, query/,
 * serve/, tables/.
 *
 * Owns: see node.h; pb_node_create makes the parts and pb_node_destroy ends them, each behind those
 * that use it.
 * Threads: as each part says.
 * Fails: never.
 * Not here: what others may do with a node (node.h). Parts know nothing of this.
 */
#ifndef PB_NODE_PARTS_H
#define PB_NODE_PARTS_H

#include <stdatomic.h>

#include "node/archive/archive.h"
#include "node/discover/discover.h"
#include "node/node.h"
#include "node/sql/engine.h"

struct pb_pythons;  /* which processes are Python */
struct pb_stack_cache;  /* opened processes for the stack reader, kept between queries */
struct pb_looks; /* where threads stood when python.waits was last asked for */
struct pb_samplers; /* system.*, gpu.*: rows about processes, written by the node */
struct pb_continuous; /* python.samples: stacks of probed processes, all the time */
struct pb_node_audit; /* probing.audit: who was refused */
struct pb_ranks; /* ranks of jobs on this machine */
struct pb_peers; /* the cluster */

struct pb_node {
    struct pb_node_opts opts;
    char host[64];
    struct pb_quarantine *quarantine; /* rings not to be read; NULL without a data folder */
    struct pb_discover *discover;
    char lake[PB_SETTING_VALUE_MAX]; /* folder that machines share, or "" */
    struct pb_archive *archive; /* NULL without a data folder */
    struct pb_sql *sql;
    struct pb_pythons *pythons;
    struct pb_stack_cache *stacks;
    struct pb_looks *looks;
    struct pb_samplers *samplers; /* NULL unless background */
    struct pb_continuous *continuous; /* NULL unless background */
    struct pb_node_audit *audit;  /* NULL unless background */
    struct pb_ranks *ranks;
    struct pb_peers *peers; /* NULL unless background */
    uint64_t started_ns; /* monotonic */
    int stop_fd;         /* becomes readable when pb_node_stop was called */
    _Atomic int64_t settings[PB_SETTING_COUNT];    /* the node's own; read by pb_node_setting */
    _Atomic bool chosen[PB_SETTING_COUNT]; /* set by hand: no command's environment changes it */
};

#endif
