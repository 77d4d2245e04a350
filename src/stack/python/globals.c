/*
 * A module's own code has no local variables: what it names is in the module. Shown are the
 * program's own values, not what it has imported and defined.
 *
 * A frame holds its global and its local names in two dicts, which for a module are one. So the
 * dict that a frame points to twice is the one, whatever the version.
 */
#include <string.h>

#include "stack/python/locals.h"
#include "stack/values/pointer.h"

#define NAMES_MAX 200
#define NAME_MAX 256

struct names {
    struct pb_py_reader *r;
    struct pb_local *v;
    size_t n;
};

static uint64_t find_dict(struct pb_py_reader *r, const struct pb_py_raw_frame *f)
{
    size_t n = (size_t)r->py->f_localsplus / 8;
    uint64_t words[64];

    n = n > f->len / 8 ? f->len / 8 : n;
    n = n > sizeof words / sizeof *words ? sizeof words / sizeof *words : n;
    memcpy(words, f->bytes, n * 8);
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n; k++)
            if (words[i] == words[k] && pb_py_plausible(words[i]) &&
                strcmp(pb_py_type_name(r, words[i]), "dict") == 0)
                return words[i];
    return 0;
}

/* Modules, classes and functions: the program's text says what they are. */
static bool is_definition(const char *type)
{
    static const char *const list[] = {"module", "type", "function", "builtin_function_or_method",
                                       "method", "EnumType", "EnumMeta", "ABCMeta", "PyCapsule"};

    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (strcmp(type, list[i]) == 0)
            return true;
    return false;
}

static bool add(uint64_t key, uint64_t value, void *arg)
{
    struct names *names = arg;
    struct pb_py_reader *r = names->r;
    const char *name = pb_py_str(r, key, NAME_MAX);
    struct pb_buf text = PB_BUF_INIT;

    if (!name || strncmp(name, "__", 2) == 0 || is_definition(pb_py_type_name(r, value)))
        return false;
    pb_py_value(r, value, &pb_py_limits_default, &text);
    names->v[names->n++] = (struct pb_local){
        .name = name, .value = pb_arena_strdup(r->arena, text.data ? text.data : "")};
    pb_buf_finish(&text);
    return names->n == NAMES_MAX;
}

size_t pb_py_globals(struct pb_py_reader *r, const struct pb_py_raw_frame *f,
                     struct pb_local **ret)
{
    struct names names = {.r = r, .v = PB_NEW_N(r->arena, struct pb_local, NAMES_MAX + 1)};
    uint64_t dict = find_dict(r, f);

    if (dict)
        pb_py_dict_each(r, dict, add, &names);
    *ret = names.v;
    return names.n;
}
