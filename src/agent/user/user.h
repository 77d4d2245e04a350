/*
 * user.h - tables that the program itself fills: probing.table(), span(), event().
 *
 * Owns: the tables, for as long as the process lives.
 * Threads: as said.
 * Fails: wrong names and wrong numbers of arguments raise, whether the agent runs or not. A value
 * that does not fit its column never does: the agent may come at any time, and must not make calls
 * fail that did not before. It is NULL, and status says so once.
 * Not here: collectors (collectors/collect.h).
 *
 * Two copies of the library may be in a process: the package's, which has these functions, and one
 * that was injected, which runs the agent. Then the injected one tells the other, through its
 * Python functions follow() and unfollow(), where the folder is and when it ends. Both write rings
 * of the same format into the same folder, so they need not be of the same version.
 */
#ifndef PB_AGENT_USER_USER_H
#define PB_AGENT_USER_USER_H

#include "agent/collectors/collect.h"
#include "agent/core/self.h"

/* What the collectors' framework calls. */
extern const struct pb_collect_client pb_user_client;

/* GIL held: types and the like. Raises and returns false. */
bool pb_user_prepare(struct pb_self *self);
/* The module's functions, ended by an empty one; made for this version of Python. */
struct pb_py_method *pb_user_methods(const struct pb_py *py);

#endif
