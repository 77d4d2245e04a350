/*
 * procfile.h - small files of the kernel, and numbers in them.
 *
 * Owns: nothing.
 * Threads: any.
 * Fails: with -1 or false; what the kernel does not tell is NULL in a row.
 * Not here: what the files mean (one sampler each).
 */
#ifndef PB_NODE_SAMPLE_PROCFILE_H
#define PB_NODE_SAMPLE_PROCFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/sample/sampler.h"

/* What MB means in every table. */
#define PB_SAMPLE_MB 1048576.0

/* The whole file into buf, terminated and cut at cap - 1; its length, or -1 with errno. */
long pb_sample_file(char *buf, size_t cap, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The next number, behind blanks; *at moves behind it. */
bool pb_scan_u64(const char **at, uint64_t *ret);
/* Moves over words. */
bool pb_scan_skip(const char **at, int words);
/* The number on the line that starts with key, behind "key", "key:" or "key=". */
bool pb_scan_key(const char *text, const char *key, uint64_t *ret);
/* The first number of a file; false when there is none ("max"). */
bool pb_sample_number(uint64_t *ret, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* "12.34", without the locale's idea of a decimal point. */
bool pb_scan_decimal(const char **at, double *ret);

bool pb_sample_parse_stat(struct pb_sample_stat *ret, const char *text);

/* All cells NULL but the first, which is the time. */
void pb_sample_row(union pb_cell *cells, const struct pb_sampler *s,
                   const struct pb_sample_tick *t);
/* Dictionary number of a terminated text; NULL stays NULL. */
uint32_t pb_sample_name(struct pb_ring *ring, const char *s);
/* Events a second from two readings of a counter; NULL when it ran backwards or seconds is 0. */
double pb_sample_rate(uint64_t now, uint64_t before, double unit, double seconds);

static inline int64_t pb_sample_rank(const struct pb_sampled *p)
{
    return p->rank < 0 ? PB_NULL_INT : p->rank;
}

#endif
