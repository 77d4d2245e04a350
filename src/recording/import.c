#include "recording/import.h"

#include <stdlib.h>
#include <string.h>

#include "host/text/json.h"

/* "func (dir/file.py:12)": what pb_format_label makes, taken apart again. */
static struct pb_prof_frame frame_of(const char *label, size_t len, struct pb_arena *a)
{
    char *text = pb_arena_strndup(a, label, len), *open, *colon, *end;
    struct pb_prof_frame f = {text, "", 0, false};

    if (len < 4 || text[len - 1] != ')')
        return f;
    open = strstr(text, " (");
    while (open && strstr(open + 2, " ("))
        open = strstr(open + 2, " (");
    if (!open)
        return f;
    text[len - 1] = '\0';
    *open = '\0';
    f.file = open + 2;
    colon = strrchr(f.file, ':');
    if (colon && colon[1]) {
        long line = strtol(colon + 1, &end, 10);

        if (!*end && line > 0 && line < 1 << 30) {
            *colon = '\0';
            f.lineno = (int)line;
        }
    }
    f.native = !f.lineno && strstr(f.file, ".so");
    return f;
}

static void add_entry(struct pb_recording *r, uint32_t thread, uint32_t node, uint64_t at_ns,
                      uint64_t weight_ns)
{
    struct pb_rec_sample s = {.at_ns = at_ns, .weight_ns = weight_ns, .thread = thread,
                              .node = node, .on_cpu = true};

    pb_recording_add(r, &s);
}

/* One line: frames with ';' between, a blank, a number. */
static bool add_line(struct pb_recording *r, const char *line, size_t len)
{
    struct pb_arena a = PB_ARENA_INIT;
    uint32_t node = 0;
    size_t digits = 0;
    uint64_t us;

    while (digits < len && line[len - 1 - digits] >= '0' && line[len - 1 - digits] <= '9')
        digits++;
    if (!digits || digits > 18 || len < digits + 2 || line[len - 1 - digits] != ' ')
        return false;
    us = strtoull(line + len - digits, NULL, 10);
    for (size_t at = 0, end = len - digits - 1; at < end;) {
        const char *stop = memchr(line + at, ';', end - at);
        size_t n = stop ? (size_t)(stop - (line + at)) : end - at;
        struct pb_prof_frame f = frame_of(line + at, n, &a);

        node = pb_stacks_child(&r->stacks, node, &f);
        at += n + 1;
    }
    add_entry(r, 0, node, r->length_ns, us * 1000);
    r->length_ns += us * 1000;
    pb_arena_finish(&a);
    return true;
}

static int read_collapsed(const char *text, size_t len, struct pb_recording *r,
                          struct pb_err *err)
{
    pb_recording_thread(r, 0, 0, "");
    r->collapsed = true;
    for (size_t at = 0; at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end ? (size_t)(end - (text + at)) : len - at;

        if (n && !add_line(r, text + at, n))
            return pb_err_set(err, PB_FAIL, "neither collapsed stacks nor a file of speedscope");
        at += n + 1;
    }
    return 0;
}

static uint64_t unit_ns(const char *unit)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {{"nanoseconds", 1}, {"microseconds", 1000}, {"milliseconds", 1000000},
                 {"seconds", 1000000000}, {"none", 1000000}};

    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(unit, units[i].name) == 0)
            return units[i].ns;
    return 0;
}

static double number_of(const struct pb_json *v)
{
    return v->type == PB_J_INT ? (double)v->v.i : v->type == PB_J_REAL ? v->v.d : -1;
}

static bool add_sample(struct pb_recording *r, uint32_t thread, const struct pb_json *frames,
                       const struct pb_json *stack, double weight_ns, uint64_t *at_ns)
{
    uint32_t node = 0;

    if (stack->type != PB_J_ARRAY || !(weight_ns >= 0 && weight_ns < 1e18))
        return false;
    for (size_t i = 0; i < stack->n; i++) {
        const struct pb_json *f, *number = &stack->items[i];
        struct pb_prof_frame is;

        if (number->type != PB_J_INT || number->v.i < 0 || (size_t)number->v.i >= frames->n)
            return false;
        f = &frames->items[number->v.i];
        is = (struct pb_prof_frame){pb_json_str(f, "name", "?"), pb_json_str(f, "file", ""),
                                    (int)pb_json_whole(f, "line", 0), false};
        is.native = !is.lineno;
        node = pb_stacks_child(&r->stacks, node, &is);
    }
    add_entry(r, thread, node, *at_ns, (uint64_t)weight_ns);
    *at_ns += (uint64_t)weight_ns;
    return true;
}

static bool add_profile(struct pb_recording *r, const struct pb_json *frames,
                        const struct pb_json *profile)
{
    const struct pb_json *samples = pb_json_get(profile, "samples");
    const struct pb_json *weights = pb_json_get(profile, "weights");
    uint64_t unit = unit_ns(pb_json_str(profile, "unit", "")), at = 0;
    const char *name = pb_json_str(profile, "name", ""), *number = strstr(name, " (");
    struct pb_arena a = PB_ARENA_INIT;
    uint32_t thread;
    bool good = samples && weights && samples->type == PB_J_ARRAY &&
                weights->type == PB_J_ARRAY && samples->n == weights->n && unit &&
                strcmp(pb_json_str(profile, "type", ""), "sampled") == 0;

    /* Threads are compared by name: without the number behind it. */
    thread = pb_recording_thread(
        r, 0, strncmp(name, "MainThread", 10) == 0 ? 0 : (pid_t)r->nthreads + 1,
        number ? pb_arena_strndup(&a, name, (size_t)(number - name)) : name);
    for (size_t i = 0; good && i < samples->n; i++)
        good = add_sample(r, thread, frames, &samples->items[i],
                          number_of(&weights->items[i]) * (double)unit, &at);
    if (at > r->length_ns)
        r->length_ns = at;
    pb_arena_finish(&a);
    return good;
}

static int read_speedscope(const char *text, size_t len, struct pb_recording *r,
                           struct pb_err *err)
{
    struct pb_arena a = PB_ARENA_INIT;
    const struct pb_json *frames, *profiles;
    struct pb_json top;
    bool good = pb_json_parse(&a, text, len, &top, err) == 0;

    frames = good ? pb_json_get(pb_json_get(&top, "shared"), "frames") : NULL;
    profiles = good ? pb_json_get(&top, "profiles") : NULL;
    good = frames && profiles && frames->type == PB_J_ARRAY && profiles->type == PB_J_ARRAY;
    for (size_t i = 0; good && i < profiles->n; i++)
        good = add_profile(r, frames, &profiles->items[i]);
    if (good)
        r->command = pb_arena_strdup(&r->stacks.arena, pb_json_str(&top, "name", ""));
    pb_arena_finish(&a);
    return good ? 0 : pb_err_set(err, PB_FAIL, "no file of speedscope with sampled profiles");
}

int pb_import(const char *text, size_t len, struct pb_recording *ret, struct pb_err *err)
{
    int rc;

    pb_recording_init(ret);
    rc = len && text[0] == '{' ? read_speedscope(text, len, ret, err)
                               : read_collapsed(text, len, ret, err);
    if (rc == 0 && !ret->samples)
        rc = pb_err_set(err, PB_FAIL, "no samples in it");
    if (rc < 0)
        pb_recording_finish(ret);
    return rc;
}
