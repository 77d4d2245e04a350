/*
 * population.h - the Python processes that rows are made about, and their threads.
 *
 * Owns: what is known of each process and thread since the last round.
 * Threads: one.
 * Fails: never; a process that ended or may not be read is left out.
 * Not here: rows (one sampler each), stacks (stack/).
 *
 * Whether a process is Python is asked when it is first seen and then ever more rarely, since a
 * shell may become Python by exec; between the rounds that ask, a process costs one small read
 * and each thread another.
 */
#ifndef PB_NODE_SAMPLE_POPULATION_H
#define PB_NODE_SAMPLE_POPULATION_H

#include "node/sample/sampler.h"

struct pb_population;

struct pb_population *pb_population_create(void);
void pb_population_destroy(struct pb_population *p);
/* One round; new processes are looked for when that is due. */
void pb_population_read(struct pb_population *p, uint64_t mono_ns);
/* In the order they were found; valid until the next round. */
const struct pb_sampled *pb_population_processes(const struct pb_population *p, size_t *ret_n);
/* Python processes that were too many. */
size_t pb_population_omitted(const struct pb_population *p);

#endif
