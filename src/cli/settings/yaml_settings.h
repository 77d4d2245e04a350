/*
 * yaml_settings.h - settings from a YAML file, checked.
 *
 * Owns: nothing; results are in the caller's arena.
 * Threads: one.
 * Fails: with PB_USAGE and "FILE: line N: what", the nearest known key for an
 * unknown one. A file with one mistake gives nothing at all.
 * Not here: what settings there are (base/settings.h), YAML itself (yaml.h).
 */
#ifndef PB_CLI_SETTINGS_YAML_SETTINGS_H
#define PB_CLI_SETTINGS_YAML_SETTINGS_H

#include <stdbool.h>

#include "base/settings.h"
#include "host/text/arena.h"

struct pb_yaml_settings {
    struct pb_settings settings;
    bool given[PB_SETTING_COUNT]; /* settings that the file names */
};

int pb_yaml_settings_read(struct pb_yaml_settings *ret, const char *path, struct pb_arena *a,
                          struct pb_err *err);
/* The given ones as the "key=value" lines that an agent takes. */
const char *pb_yaml_settings_lines(const struct pb_yaml_settings *s, struct pb_arena *a);

#endif
