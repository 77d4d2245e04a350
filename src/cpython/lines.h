/*
 * lines.h - from an instruction to its source line.
 *
 * Owns: nothing. Threads: any. Pure functions over bytes.
 * Fails: 0 where the table gives no line or is damaged.
 */
#ifndef PB_CPYTHON_LINES_H
#define PB_CPYTHON_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "cpython/layout.h"

/* The expression that an instruction belongs to, as PEP 657 has it; columns in bytes from 0. */
struct pb_py_position {
    int line, end_line;  /* 0 where the table gives none */
    int column, end_column; /* columns of the last byte and one; -1 where the table gives none */
};

/* 3.11 and later. */
struct pb_py_position pb_py_position_of(const uint8_t *table, size_t len, int firstlineno,
                                        uint32_t offset);

/* offset: byte offset of the instruction inside the code. */
int pb_py_line(enum pb_py_lines format, const uint8_t *table, size_t len, int firstlineno,
               uint32_t offset);

#endif
