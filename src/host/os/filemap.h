/*
 * filemap.h - files mapped to be read, whoever may change them meanwhile.
 *
 * Owns: the list of what is mapped, for the whole process.
 * Threads: any.
 * Fails: NULL with errno set. A file that is cut off while it is mapped reads as zeros from the
 * first lost page that is touched; without pb_filemap_watch, or a handler of the caller's that
 * calls pb_filemap_mend, touching it is a SIGBUS.
 * Not here: what the bytes mean. They may change between two looks: whoever checks a value copies
 * it first. Behind the last byte there is always a zero, so that a text ends.
 */
#ifndef PB_HOST_OS_FILEMAP_H
#define PB_HOST_OS_FILEMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

const uint8_t *pb_filemap_open(int fd, size_t size);
/* data may be NULL. */
void pb_filemap_close(const uint8_t *data, size_t size);

/* For a handler of SIGBUS: true when the address lay in a mapped file and can be read now. */
bool pb_filemap_mend(const void *address);
/* Such a handler, for processes that have no other; what else is a SIGBUS goes where it went. */
void pb_filemap_watch(void);

#endif
