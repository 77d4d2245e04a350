#include "base/settings.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct pb_setting pb_setting_list[PB_SETTING_COUNT] = {
#define PB_SETTING(id, name, type, default_value, min, max, doc)                                   \
    {name, type, default_value, min, max, doc},
#include "base/settings.def"
#undef PB_SETTING
};

enum pb_setting_whose pb_settings_whose(int index)
{
    switch ((enum pb_setting_id)index) {
    case PB_SET_SAMPLE_INTERVAL:
    case PB_SET_PROFILE_BUDGET:
    case PB_SET_QUERY_TIMEOUT:
    case PB_SET_QUERY_MEMORY:
    case PB_SET_HISTORY_DELAY:
    case PB_SET_RETENTION_DAYS:
    case PB_SET_RETENTION:
    case PB_SET_LAKE_PATH:
    case PB_SET_LAKE_DELAY:
    case PB_SET_LAKE_MERGE:
    case PB_SET_SERVE_IDLE:
    case PB_SET_STACKS_NATIVE:
    case PB_SET_SERVE_PLAIN:
    case PB_SET_CLUSTER_PORT:
    case PB_SET_CLUSTER_INTERVAL:
    case PB_SET_CLUSTER_MAX_MB:
        return PB_OF_NODE;
    case PB_SET_STORE_KEEP_HOURS:
    case PB_SET_STORE_KEEP:
        return PB_OF_BOTH;
    default:
        return PB_OF_PROCESS;
    }
}

void pb_settings_init(struct pb_settings *s)
{
    memset(s->text, 0, sizeof s->text);
    for (int i = 0; i < PB_SETTING_COUNT; i++)
        s->v[i] = pb_setting_list[i].default_value;
}

int pb_settings_find(const char *key, size_t len)
{
    static const char prefix[] = "probing.";

    if (len > sizeof prefix - 1 && memcmp(key, prefix, sizeof prefix - 1) == 0) {
        key += sizeof prefix - 1;
        len -= sizeof prefix - 1;
    }
    for (int i = 0; i < PB_SETTING_COUNT; i++)
        if (strlen(pb_setting_list[i].name) == len &&
            memcmp(pb_setting_list[i].name, key, len) == 0)
            return i;
    return -1;
}

static bool is_word(const char *text, size_t len, const char *const *words)
{
    for (; *words; words++)
        if (strlen(*words) == len && memcmp(*words, text, len) == 0)
            return true;
    return false;
}

static bool parse_switch(const char *text, size_t len, int64_t *ret)
{
    static const char *const on[] = {"1", "on", "true", "yes", "True", NULL};
    static const char *const off[] = {"0", "off", "false", "no", "False", NULL};

    *ret = is_word(text, len, on);
    return *ret || is_word(text, len, off);
}

/* Decimal digits with at most three behind the point: exact, and the same in every locale. */
static bool parse_thousandths(const char *text, size_t len, int64_t *ret)
{
    int64_t v = 0;
    int behind = -1;

    if (!len || text[0] == '.' || len > 15)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '.' && behind < 0 && i + 1 < len) {
            behind = 0;
        } else if (text[i] >= '0' && text[i] <= '9' && behind < 3) {
            v = v * 10 + (text[i] - '0');
            behind += behind >= 0;
        } else {
            return false;
        }
    }
    for (int i = behind < 0 ? 0 : behind; i < 3; i++)
        v *= 10;
    *ret = v;
    return true;
}

/* The words of a choice are the end of its doc: "…: full|hash|off". */
static const char *choices_of(const struct pb_setting *set)
{
    return strrchr(set->doc, ' ') + 1;
}

/* The word of this number, and its length. */
static const char *choice_at(const struct pb_setting *set, int64_t number, size_t *ret_len)
{
    const char *word = choices_of(set);

    while (number-- > 0)
        word = strchr(word, '|') + 1;
    *ret_len = strcspn(word, "|");
    return word;
}

static bool parse_choice(const struct pb_setting *set, const char *text, size_t len, int64_t *ret)
{
    for (int64_t i = set->min; i <= set->max; i++) {
        size_t n;
        const char *word = choice_at(set, i, &n);

        if (n == len && memcmp(word, text, n) == 0) {
            *ret = i;
            return true;
        }
    }
    return false;
}

/* One line that fits. */
static bool parse_text(const char *text, size_t len, int64_t *ret)
{
    *ret = len > 0;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            return false;
    return len < PB_SETTING_VALUE_MAX;
}

static bool parse_value(const struct pb_setting *set, const char *text, size_t len, int64_t *ret)
{
    if (set->type == PB_EXPRESSION)
        return parse_text(text, len, ret);
    if (set->type == PB_SWITCH)
        return parse_switch(text, len, ret);
    if (set->type == PB_CHOICE)
        return parse_choice(set, text, len, ret);
    if (!parse_thousandths(text, len, ret))
        return false;
    if (set->type == PB_COUNT) {
        if (*ret % 1000)
            return false;
        *ret /= 1000;
    }
    return *ret >= set->min && *ret <= set->max;
}

size_t pb_settings_format(int index, int64_t value, char buf[PB_SETTING_VALUE_MAX])
{
    enum pb_setting_type type = pb_setting_list[index].type;
    const char *word;
    size_t len;
    int n;

    if (type == PB_CHOICE) {
        word = choice_at(&pb_setting_list[index], value, &len);
        n = snprintf(buf, PB_SETTING_VALUE_MAX, "%.*s", (int)len, word);
    } else if (type == PB_EXPRESSION)
        n = snprintf(buf, PB_SETTING_VALUE_MAX, "%s", "");
    else if (type == PB_SWITCH)
        n = snprintf(buf, PB_SETTING_VALUE_MAX, "%s", value ? "on" : "off");
    else if (type == PB_COUNT || value % 1000 == 0)
        n = snprintf(buf, PB_SETTING_VALUE_MAX, "%lld",
                     (long long)(type == PB_COUNT ? value : value / 1000));
    else
        n = snprintf(buf, PB_SETTING_VALUE_MAX, "%lld.%03d", (long long)(value / 1000),
                     (int)(value % 1000));
    if (type == PB_NUMBER && value % 1000)
        while (buf[n - 1] == '0')
            buf[--n] = '\0';
    return (size_t)n;
}

int pb_settings_parse(int index, const char *text, size_t len, int64_t *ret, struct pb_err *err)
{
    const struct pb_setting *set = &pb_setting_list[index];
    char min[PB_SETTING_VALUE_MAX], max[PB_SETTING_VALUE_MAX];
    int64_t v;

    if (parse_value(set, text, len, &v)) {
        *ret = v;
        return 0;
    }
    if (set->type == PB_EXPRESSION)
        return pb_err_set(err, PB_USAGE, "%s: not one line of up to %d bytes", set->name,
                          PB_SETTING_VALUE_MAX - 1);
    if (len > 40)
        len = 40;
    if (set->type == PB_SWITCH)
        return pb_err_set(err, PB_USAGE, "%s: '%.*s' is neither on nor off", set->name, (int)len,
                          text);
    if (set->type == PB_CHOICE)
        return pb_err_set(err, PB_USAGE, "%s: '%.*s' is not one of %s", set->name, (int)len, text,
                          choices_of(set));
    pb_settings_format(index, set->min, min);
    pb_settings_format(index, set->max, max);
    return pb_err_set(err, PB_USAGE, "%s: '%.*s' is not a %s from %s to %s", set->name, (int)len,
                      text, set->type == PB_COUNT ? "whole number" : "number", min, max);
}

/* Which of the texts, in the order of the list. */
static int text_slot(int index)
{
    int slot = 0;

    for (int i = 0; i < index; i++)
        slot += pb_setting_list[i].type == PB_EXPRESSION;
    return slot < PB_SETTING_TEXTS ? slot : PB_SETTING_TEXTS - 1;
}

int pb_settings_set(struct pb_settings *s, int index, const char *text, size_t len,
                    struct pb_err *err)
{
    int64_t v = 0;

    if (pb_settings_parse(index, text, len, &v, err) < 0)
        return -1;
    s->v[index] = v;
    if (pb_setting_list[index].type == PB_EXPRESSION) {
        memcpy(s->text[text_slot(index)], text, len);
        s->text[text_slot(index)][len] = '\0';
    }
    return 0;
}

const char *pb_settings_text(const struct pb_settings *s, int index)
{
    return s->text[text_slot(index)];
}

size_t pb_settings_show(const struct pb_settings *s, int index, char buf[PB_SETTING_VALUE_MAX])
{
    if (pb_setting_list[index].type != PB_EXPRESSION)
        return pb_settings_format(index, s->v[index], buf);
    return (size_t)snprintf(buf, PB_SETTING_VALUE_MAX, "%s", pb_settings_text(s, index));
}

static void trim(const char **text, size_t *len)
{
    while (*len && (**text == ' ' || **text == '\t')) {
        ++*text;
        --*len;
    }
    while (*len && strchr(" \t\r", (*text)[*len - 1]) && (*text)[*len - 1])
        --*len;
}

int pb_settings_apply(struct pb_settings *s, const char *line, size_t len, struct pb_err *err)
{
    const char *equals = memchr(line, '=', len);
    const char *key = line, *value;
    size_t key_len, value_len;
    int index;

    if (!equals)
        return pb_err_set(err, PB_USAGE, "'%.*s' is not key=value", (int)(len < 60 ? len : 60),
                          line);
    key_len = (size_t)(equals - line);
    value = equals + 1;
    value_len = len - key_len - 1;
    trim(&key, &key_len);
    trim(&value, &value_len);
    index = pb_settings_find(key, key_len);
    if (index < 0)
        return pb_err_set(err, PB_USAGE, "no setting '%.*s'",
                          (int)(key_len < 60 ? key_len : 60), key);
    return pb_settings_set(s, index, value, value_len, err);
}

int pb_settings_apply_lines(struct pb_settings *s, const char *text, size_t len,
                            struct pb_err *err)
{
    struct pb_settings copy = *s;

    while (len) {
        const char *end = memchr(text, '\n', len);
        size_t n = end ? (size_t)(end - text) : len, used = end ? n + 1 : n, left = n;
        const char *line = text;

        trim(&line, &left);
        if (left && pb_settings_apply(&copy, line, left, err) < 0)
            return -1;
        text += used;
        len -= used;
    }
    *s = copy;
    return 0;
}

void pb_settings_env_name(int index, char *buf)
{
    const char *name = pb_setting_list[index].name;
    size_t n = (size_t)snprintf(buf, PB_SETTING_NAME_MAX, "PROBING_");

    for (; *name && n + 1 < PB_SETTING_NAME_MAX; name++)
        buf[n++] = *name == '.' ? '_' : (char)(*name >= 'a' && *name <= 'z' ? *name - 32 : *name);
    buf[n] = '\0';
}

void pb_settings_read_env(struct pb_settings *s, char *note, size_t cap)
{
    note[0] = '\0';
    for (int i = 0; i < PB_SETTING_COUNT; i++) {
        char name[PB_SETTING_NAME_MAX];
        struct pb_err err = {0};
        const char *value;

        pb_settings_env_name(i, name);
        value = getenv(name);
        if (value && *value && pb_settings_set(s, i, value, strlen(value), &err) < 0 && !note[0])
            snprintf(note, cap, "%s", err.msg);
    }
}
