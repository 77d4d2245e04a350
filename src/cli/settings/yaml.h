/*
 * yaml.h - the keys and values of a YAML document, nested keys joined by dots.
 *
 * Owns: nothing; results are in the caller's arena.
 * Threads: one.
 * Fails: with PB_USAGE and "line N: what". A document that is too long, too deep, has too many
 * keys or too many references to references is refused.
 * Not here: what the keys mean (yaml_settings.h), YAML's grammar (libyaml).
 *
 *     probing:                            # a comment
 *       eval: {timeout: 5}                -> probing.eval.timeout = 5
 *     agent: [{follow_forks: "off"}]      -> agent.follow_forks = off
 *     a: &usual {x: 1, y: 2}
 *     b: {<<: *usual, y: 3}               -> b.y = 3, b.x = 1
 */
#ifndef PB_CLI_SETTINGS_YAML_H
#define PB_CLI_SETTINGS_YAML_H

#include <stddef.h>

#include "base/err.h"
#include "host/text/arena.h"

enum { PB_YAML_MAX = 64 << 10, PB_YAML_DEPTH = 8, PB_YAML_PAIRS = 1000 };

struct pb_yaml_pair {
    const char *key; /* the full key: "probing.eval.timeout" */
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
