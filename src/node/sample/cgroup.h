/*
 * cgroup.h - control groups of either version: where they are, their limits, what they use.
 *
 * Owns: nothing.
 * Threads: any.
 * Fails: what cannot be read is absent.
 * Not here: rows (system_cgroup.c).
 */
#ifndef PB_NODE_SAMPLE_CGROUP_H
#define PB_NODE_SAMPLE_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { PB_CGROUP_PATH = 256 };

/* Controllers that we ask; version 2 has all of them in one tree. */
enum pb_cgroup_tree { PB_CGROUP_V2, PB_CGROUP_MEMORY, PB_CGROUP_CPU, PB_CGROUP_TREES };

struct pb_cgroup_mounts {
    struct {
        char at[PB_CGROUP_PATH];   /* "" when it is not mounted */
        char root[PB_CGROUP_PATH]; /* which group stands there */
    } tree[PB_CGROUP_TREES];
};

struct pb_cgroup {
    char name[PB_CGROUP_PATH]; /* the group's name in the process's own tree */
    char memory[2 * PB_CGROUP_PATH], cpu[2 * PB_CGROUP_PATH]; /* folders, or "" */
    bool memory_v2, cpu_v2;
    uint64_t memory_max; /* bytes; UINT64_MAX for none */
    double cpu_limit;    /* cores; 0 for none */
};

struct pb_cgroup_now {
    bool has_memory, has_oom_kills, has_throttled;
    uint64_t memory, oom_kills, throttled_us, periods;
};

/* False when there are none. */
bool pb_cgroup_mounts_read(struct pb_cgroup_mounts *m);
/* The same from the text of mountinfo. */
bool pb_cgroup_mounts_parse(struct pb_cgroup_mounts *m, const char *mountinfo);
/* The groups of a process, and their limits, which may come from groups above. */
bool pb_cgroup_of(struct pb_cgroup *g, const struct pb_cgroup_mounts *m, pid_t pid);
/* The same from the text of /proc/PID/cgroup. */
bool pb_cgroup_parse(struct pb_cgroup *g, const struct pb_cgroup_mounts *m, const char *text);
void pb_cgroup_read(struct pb_cgroup_now *now, const struct pb_cgroup *g);

#endif
