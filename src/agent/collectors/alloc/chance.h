/*
 * chance.h - which allocations are sampled, and what one of them stands for.
 *
 * Owns: nothing; the state of the generator is its caller's.
 * Threads: any.
 * Fails: never.
 * Not here: libm, which the agent does not need otherwise.
 *
 * Samples are points thrown at the stream of allocated bytes, `every` bytes apart on average, with
 * distances that follow an exponential distribution (a Poisson process). A block of s bytes is hit
 * with the chance p = 1 - exp(-s / every), so one that was hit stands for 1/p blocks and s/p bytes,
 * and adds s²(1-p)/p² to the variance of their sum.
 */
#ifndef PB_AGENT_COLLECTORS_ALLOC_CHANCE_H
#define PB_AGENT_COLLECTORS_ALLOC_CHANCE_H

#include <stdint.h>

/* Bytes to the next point. *random: never 0. */
int64_t pb_chance_distance(uint64_t *random, double every);
/* Chance of a block to be hit, in (0, 1]. */
double pb_chance_of(uint64_t size, double every);
/* A number in [0, 1). */
double pb_chance_uniform(uint64_t *random);

double pb_chance_sqrt(double v);

#endif
