/*
 * file.h - the file of a ring before it is one: its name and its room. For create.c only.
 *
 * Owns: nothing; the caller holds descriptors.
 * Threads: any.
 * Fails: with a negative errno. No allocation and no stdio: this runs inside targets.
 * Not here: what is in the file (format.h).
 */
#ifndef PB_STORE_FILE_H
#define PB_STORE_FILE_H

#include <stdint.h>

#include "store/format.h"

enum { PB_RING_FILE_NAME = PB_RING_NAME + 24 };

/*
 * Makes the next generation of a table under its hidden name ".<name>.<generation>.ring", which is
 * put into file; its name for readers is one further. At most eight stay: the oldest are removed.
 */
int pb_ring_file_open(int dirfd, const char *name, char file[PB_RING_FILE_NAME],
                      uint32_t *ret_generation);
/*
 * Gets all pages, to be called before any is mapped: touching a page that a full tmpfs cannot
 * give is a SIGBUS.
 */
int pb_ring_file_reserve(int fd, uint64_t size);

#endif
