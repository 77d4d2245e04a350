/*
 * agent.h - libprobing.so: what is exported, and the one global.
 *
 * Owns: the agent's thread, socket and folder in this process.
 * Threads: the agent's own thread does the work; exports may be called from any.
 * Fails: a start that fails leaves nothing behind and says why in its return
 * value; nothing here ends, blocks or prints into the host.
 * Not here: how it got into the process (inject/, python/).
 *
 * The exports, and no other symbol, leave the library:
 *   probing_start         loads the agent; options are "key=value" lines
 *   probing_stop          stops everything; the library stays mapped, inert
 *   PyInit_libprobing     the same as an importable module
 */
#ifndef PB_AGENT_AGENT_H
#define PB_AGENT_AGENT_H

/* 0 started, 1 was running already (options applied), negative errno otherwise. */
int probing_start(const char *options);
int probing_stop(void);
void *PyInit_libprobing(void);

#endif
