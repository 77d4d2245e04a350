#include "stack/options.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FRAMES_MAX = 200000 };

static const char *const pauses[] = {
    [PB_PAUSE_ONE] = "one", [PB_PAUSE_NEVER] = "never", [PB_PAUSE_ALL] = "all"};

/* name, the flag */
#define FLAGS(X)                                                                                   \
    X(all, snapshot.all)                                                                           \
    X(locals, snapshot.locals)                                                                     \
    X(native, snapshot.native)                                                                     \
    X(verbose, snapshot.source)                                                                    \
    X(subprocesses, subprocesses)                                                                  \
    X(secrets, secrets)

const char *const pb_stack_opt_names[] = {
#define X(name, field) #name,
    FLAGS(X)
#undef X
    "tid", "pause", "limit", NULL};

static int set_flag(bool *ret, const char *name, const char *value, struct pb_err *err)
{
    static const char *const words[][2] = {
        {"0", "1"}, {"false", "true"}, {"no", "yes"}, {"off", "on"}};

    *ret = true;
    if (!*value)
        return 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (int on = 0; on < 2; on++)
            if (strcasecmp(value, words[i][on]) == 0) {
                *ret = on;
                return 0;
            }
    return pb_err_set(err, PB_USAGE, "%s: '%.20s' is neither 1 nor 0", name, value);
}

static int set_pause(enum pb_pause *ret, const char *value, struct pb_err *err)
{
    for (size_t i = 0; i < sizeof pauses / sizeof *pauses; i++)
        if (strcmp(value, pauses[i]) == 0) {
            *ret = (enum pb_pause)i;
            return 0;
        }
    return pb_err_set(err, PB_USAGE, "pause: '%.20s' is none of one, never, all", value);
}

static int read_number(long *ret, const char *name, const char *value, long max,
                       struct pb_err *err)
{
    char *end;

    *ret = strtol(value, &end, 10);
    if (!*value || *end || *ret < 0 || *ret > max)
        return pb_err_set(err, PB_USAGE, "%s: '%.20s' is no number up to %ld", name, value, max);
    return 0;
}

int pb_stack_opts_set(struct pb_stack_opts *o, const char *name, const char *value,
                      struct pb_err *err)
{
    long n = 0;
    int rc;

#define X(flag, field)                                                                             \
    if (strcmp(name, #flag) == 0)                                                                  \
        return set_flag(&o->field, name, value, err);
    FLAGS(X)
#undef X
    if (strcmp(name, "pause") == 0)
        return set_pause(&o->snapshot.pause, value, err);
    if (strcmp(name, "tid") == 0) {
        rc = read_number(&n, name, value, INT32_MAX, err);
        o->snapshot.tid = (pid_t)n;
        return rc;
    }
    if (strcmp(name, "limit") == 0) {
        rc = read_number(&n, name, value, FRAMES_MAX, err);
        o->snapshot.max_frames = (size_t)n;
        return rc;
    }
    return pb_err_set(err, PB_USAGE, "'%.20s' is nothing that a stack can be asked for", name);
}

void pb_stack_opts_write(const struct pb_stack_opts *o, struct pb_buf *b)
{
    size_t start = b->len;

#define X(name, field)                                                                             \
    if (o->field)                                                                                  \
        pb_buf_puts(b, "&" #name "=1");
    FLAGS(X)
#undef X
    if (o->snapshot.tid)
        pb_buf_printf(b, "&tid=%d", (int)o->snapshot.tid);
    pb_buf_printf(b, "&pause=%s&limit=%zu", pauses[o->snapshot.pause], o->snapshot.max_frames);
    memmove(b->data + start, b->data + start + 1, b->len - start); /* the first & */
    b->len--;
}
