/*
 * audit.h - the node's own rows of probing.audit: tokens that were refused. What is run or changed
 * inside a process is written down by its agent.
 *
 * Owns: one ring in the node's own store.
 * Threads: any.
 * Fails: never; without a ring nothing is written.
 * Not here: the agent's rows (agent/collectors/audit.h).
 */
#ifndef PB_NODE_AUDIT_H
#define PB_NODE_AUDIT_H

struct pb_node_audit;

/* dir: the folder of the node's own tables. NULL when there is no room for a ring. */
struct pb_node_audit *pb_node_audit_create(int dir);
void pb_node_audit_destroy(struct pb_node_audit *a);

struct pb_node_audit_row {
    const char *action, *result, *client, *detail;
};

/* a may be NULL. */
void pb_node_audit_write(struct pb_node_audit *a, const struct pb_node_audit_row *row);

#endif
