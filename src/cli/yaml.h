/*
 * yaml.h - the part of YAML that settings need: mappings of mappings of scalars.
 *
 * Owns: nothing; results are in the caller's arena.
 * Threads: one.
 * Fails: with PB_USAGE and "line N: what". Whatever is not understood (lists,
 * flow style, anchors, tags, block text) is refused, never guessed at.
 * Not here: what the keys mean (yaml_settings.h).
 *
 *     probing:            # a comment
 *       eval:
 *         timeout: 5      -> probing.eval.timeout = 5
 *     agent.follow_forks: "off"
 */
#ifndef PB_CLI_YAML_H
#define PB_CLI_YAML_H

#include <stddef.h>

#include "base/err.h"
#include "host/arena.h"

enum { PB_YAML_MAX = 64 << 10, PB_YAML_DEPTH = 8, PB_YAML_PAIRS = 1000 };

struct pb_yaml_pair {
    const char *key; /* with the keys around it: "probing.eval.timeout" */
    const char *value;
    int line;
};

struct pb_yaml {
    struct pb_yaml_pair *v;
    size_t n, cap;
};

int pb_yaml_parse(struct pb_yaml *ret, struct pb_arena *a, const char *text, size_t len,
                  struct pb_err *err);

#endif
