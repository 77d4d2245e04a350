/*
 * aside.h - rings that a node was ended by while it read them: they are not read again.
 *
 * Owns: the list in <data>/rings-set-aside, one line for each ring, and while `watch` the handlers
 * of the signals that mean a broken program.
 * Threads: any.
 * Fails: never; without the file nothing is set aside.
 * The handlers know the ring by pb_reader_guard: whoever reads one says so.
 * Not here: what is wrong with such a ring. Reading checks everything (store/reader.h); this is for
 * what nobody thought of, so that one ring cannot end node after node.
 */
#ifndef PB_NODE_ASIDE_H
#define PB_NODE_ASIDE_H

#include <stdbool.h>
#include <stddef.h>

struct pb_aside;
struct pb_reader;

/* watch: for the node itself, once in a process. */
struct pb_aside *pb_aside_open(const char *data_dir, bool watch);
void pb_aside_close(struct pb_aside *a);
/* Is this ring on the list? why receives the reason. a may be NULL. */
bool pb_aside_has(const struct pb_aside *a, const struct pb_reader *r, char *why, size_t cap);
/* Does it watch? Then a ring that is mapped may be cut off. */
bool pb_aside_watches(const struct pb_aside *a);

#endif
