/*
 * lines.h - from an instruction to its source line.
 *
 * Owns: nothing. Threads: any. Pure functions over bytes.
 * Fails: 0 where the table gives no line or is damaged.
 */
#ifndef PB_UNWIND_PYTHON_LINES_H
#define PB_UNWIND_PYTHON_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "unwind/python/layout.h"

/* offset: byte offset of the instruction inside the code. */
int pb_py_line(enum pb_py_lines format, const uint8_t *table, size_t len, int firstlineno,
               uint32_t offset);

#endif
