/*
 * settings.h - what can be set, its limits, and text to value and back.
 *
 * Owns: nothing; a struct pb_settings is the caller's memory.
 * Threads: any; one writer per object.
 * Fails: with one line that names the key, and for a bad value the limits.
 * Not here: which known name a wrong one resembles (host/text/nearest.h), what a
 * setting does.
 *
 * A key may be written with or without "probing." in front. The environment
 * variable of a.b is PROBING_A_B.
 */
#ifndef PB_BASE_SETTINGS_H
#define PB_BASE_SETTINGS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum pb_setting_type {
    PB_NUMBER, /* thousandths */
    PB_COUNT,
    PB_SWITCH,
    PB_CHOICE, /* one of the words of `choices`, by its place in them */
    PB_EXPRESSION, /* 0 or 1: whether there is one; it stands in pb_settings.text */
};

/* The words of the setting audit.eval. */
enum pb_audit_eval { PB_AUDIT_FULL, PB_AUDIT_HASH, PB_AUDIT_OFF };

struct pb_setting {
    const char *name;
    enum pb_setting_type type;
    int64_t default_value, min, max;
    const char *doc;
};

enum pb_setting_id {
#define PB_SETTING(id, name, type, default_value, min, max, doc) PB_SET_##id,
#include "base/settings.def"
#undef PB_SETTING
    PB_SETTING_COUNT
};

enum {
    PB_SETTING_NAME_MAX = 64,
    PB_SETTING_VALUE_MAX = 256, /* size of a text with its end */
    PB_SETTING_TEXTS = 5,       /* settings of that type */
};

/* In the order of settings.def. */
extern const struct pb_setting pb_setting_list[PB_SETTING_COUNT];

struct pb_settings {
    int64_t v[PB_SETTING_COUNT];
    char text[PB_SETTING_TEXTS][PB_SETTING_VALUE_MAX];
};

/* Who acts on a setting. */
enum pb_setting_whose { PB_OF_PROCESS, PB_OF_NODE, PB_OF_BOTH };
enum pb_setting_whose pb_settings_whose(int index);

void pb_settings_init(struct pb_settings *s);
/* Index of a key of len bytes, or -1. */
int pb_settings_find(const char *key, size_t len);
/* Checks a value of len bytes. */
int pb_settings_parse(int index, const char *text, size_t len, int64_t *ret, struct pb_err *err);
/* Checks a value of len bytes and keeps it. */
int pb_settings_set(struct pb_settings *s, int index, const char *text, size_t len,
                    struct pb_err *err);
/* The value of a setting that is a text. */
const char *pb_settings_text(const struct pb_settings *s, int index);
/* Writes the value as it would be typed; returns its length. */
size_t pb_settings_show(const struct pb_settings *s, int index, char buf[PB_SETTING_VALUE_MAX]);
/* Writes a value of a setting that is no text; returns its length. */
size_t pb_settings_format(int index, int64_t value, char buf[PB_SETTING_VALUE_MAX]);
/* "key=value" of len bytes; what stands around the two is ignored when it is blank. */
int pb_settings_apply(struct pb_settings *s, const char *line, size_t len, struct pb_err *err);
/* Lines of key=value. All are checked before any is taken. */
int pb_settings_apply_lines(struct pb_settings *s, const char *text, size_t len,
                            struct pb_err *err);
/* What the environment says. note, of cap bytes, gets the first value that made no sense, or "". */
void pb_settings_read_env(struct pb_settings *s, char *note, size_t cap);
/* Name of the environment variable; buf must hold PB_SETTING_NAME_MAX bytes. */
void pb_settings_env_name(int index, char *buf);

#endif
