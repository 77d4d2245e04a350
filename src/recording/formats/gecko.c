/*
 * The processed format of the Firefox Profiler: tables as columns, for each thread its own.
 */
#include <stdlib.h>

#include "host/text/json_write.h"
#include "recording/formats.h"

#define VERSION 48

/* "name":[…] with one number, or null, for each of n entries. */
#define COLUMN(out, name, n, i, ...)                                                               \
    do {                                                                                           \
        pb_buf_puts(out, ",\"" name "\":[");                                                       \
        for (size_t i = 0; i < (n); i++) {                                                         \
            if (i)                                                                                 \
                pb_buf_putc(out, ',');                                                             \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
        pb_buf_putc(out, ']');                                                                     \
    } while (0)

enum { OTHER, PYTHON, NATIVE }; /* categories, in the order of meta */

static void put_meta(const struct pb_recording *r, struct pb_buf *out)
{
    struct pb_arena a = PB_ARENA_INIT;

    pb_buf_printf(out, "{\"meta\":{\"version\":27,\"preprocessedProfileVersion\":%d,"
                       "\"processType\":0,\"stackwalk\":1,\"symbolicated\":true,\"debug\":false,"
                       "\"interval\":%g,\"startTime\":%lld,\"sampleUnits\":{\"time\":\"ms\","
                       "\"eventDelay\":\"ms\",\"threadCPUDelta\":\"µs\"},\"product\":",
                  VERSION, r->rate > 0 ? 1000 / r->rate : 10,
                  (long long)(r->started_ns / 1000000));
    pb_json_string(out, pb_format_title(r, &a));
    pb_buf_puts(out, ",\"categories\":["
                     "{\"name\":\"Other\",\"color\":\"grey\",\"subcategories\":[\"Other\"]},"
                     "{\"name\":\"Python\",\"color\":\"yellow\",\"subcategories\":[\"Other\"]},"
                     "{\"name\":\"Native\",\"color\":\"blue\",\"subcategories\":[\"Other\"]}],"
                     "\"markerSchema\":[],\"extensions\":{\"length\":0,\"id\":[],\"name\":[],"
                     "\"baseURL\":[]}},\"libs\":[],\"pages\":[],\"threads\":[");
    pb_arena_finish(&a);
}

/* Function i has its name as string 2i and its file as string 2i + 1. */
static void put_frames(const struct pb_stacks *s, struct pb_buf *out)
{
    size_t n = s->nframes;

    pb_buf_puts(out, ",\"stringArray\":[");
    for (size_t i = 0; i < n; i++) {
        if (i)
            pb_buf_putc(out, ',');
        pb_json_string(out, s->frames[i].func);
        pb_buf_putc(out, ',');
        pb_json_string(out, s->frames[i].file);
    }
    pb_buf_printf(out, "],\"funcTable\":{\"length\":%zu", n);
    COLUMN(out, "name", n, i, pb_buf_printf(out, "%zu", 2 * i));
    COLUMN(out, "isJS", n, i, pb_buf_puts(out, "false"));
    COLUMN(out, "relevantForJS", n, i, pb_buf_puts(out, "false"));
    COLUMN(out, "resource", n, i, pb_buf_puts(out, "-1"));
    COLUMN(out, "fileName", n, i, pb_buf_printf(out, "%zu", 2 * i + 1));
    COLUMN(out, "lineNumber", n, i, pb_buf_puts(out, "null"));
    COLUMN(out, "columnNumber", n, i, pb_buf_puts(out, "null"));
    pb_buf_printf(out, "},\"frameTable\":{\"length\":%zu", n);
    COLUMN(out, "address", n, i, pb_buf_puts(out, "-1"));
    COLUMN(out, "inlineDepth", n, i, pb_buf_puts(out, "0"));
    COLUMN(out, "category", n, i, pb_json_int(out, s->frames[i].native ? NATIVE : PYTHON));
    COLUMN(out, "subcategory", n, i, pb_buf_puts(out, "0"));
    COLUMN(out, "func", n, i, pb_buf_printf(out, "%zu", i));
    COLUMN(out, "nativeSymbol", n, i, pb_buf_puts(out, "null"));
    COLUMN(out, "innerWindowID", n, i, pb_buf_puts(out, "0"));
    COLUMN(out, "implementation", n, i, pb_buf_puts(out, "null"));
    COLUMN(out, "line", n, i, pb_json_int(out, s->frames[i].lineno));
    COLUMN(out, "column", n, i, pb_buf_puts(out, "null"));
    pb_buf_putc(out, '}');
}

/* The root is not in it: node i is stack i - 1. */
static void put_stacks(const struct pb_stacks *s, struct pb_buf *out)
{
    size_t n = s->nnodes - 1;

    pb_buf_printf(out, ",\"stackTable\":{\"length\":%zu", n);
    COLUMN(out, "frame", n, i, pb_buf_printf(out, "%u", s->nodes[i + 1].frame));
    COLUMN(out, "prefix", n, i, {
        if (s->nodes[i + 1].parent)
            pb_buf_printf(out, "%u", s->nodes[i + 1].parent - 1);
        else
            pb_buf_puts(out, "null");
    });
    COLUMN(out, "category", n, i,
           pb_json_int(out, s->frames[s->nodes[i + 1].frame].native ? NATIVE : PYTHON));
    COLUMN(out, "subcategory", n, i, pb_buf_puts(out, "0"));
    pb_buf_putc(out, '}');
}

static void put_samples(const struct pb_recording *r, size_t thread, struct pb_arena *a,
                        struct pb_buf *out)
{
    const struct pb_rec_sample **v = PB_NEW_N(a, const struct pb_rec_sample *, r->nentries + 1);
    size_t n = 0;

    for (size_t i = 0; i < r->nentries; i++)
        if (r->entries[i].thread == thread && r->entries[i].node)
            v[n++] = &r->entries[i];
    pb_buf_printf(out, ",\"samples\":{\"length\":%zu,\"weightType\":\"tracing-ms\"", n);
    COLUMN(out, "stack", n, i, pb_buf_printf(out, "%u", v[i]->node - 1));
    COLUMN(out, "time", n, i, pb_buf_printf(out, "%.6f", (double)v[i]->at_ns / 1e6));
    COLUMN(out, "weight", n, i, pb_buf_printf(out, "%.6f", (double)v[i]->weight_ns / 1e6));
    COLUMN(out, "threadCPUDelta", n, i,
           pb_json_int(out, v[i]->on_cpu ? (int64_t)(v[i]->weight_ns / 1000) : 0));
    pb_buf_putc(out, '}');
}

static void put_thread(const struct pb_recording *r, size_t thread, struct pb_buf *out)
{
    const struct pb_rec_thread *t = &r->threads[thread];
    struct pb_arena a = PB_ARENA_INIT;

    pb_buf_puts(out, "{\"name\":");
    pb_json_string(out, t->name);
    pb_buf_printf(out, ",\"isMainThread\":%s,\"processType\":\"default\",\"processName\":",
                  t->is_main ? "true" : "false");
    pb_json_string(out, pb_format_title(r, &a));
    pb_buf_printf(out, ",\"processStartupTime\":0,\"processShutdownTime\":null,\"registerTime\":0,"
                       "\"unregisterTime\":null,\"pausedRanges\":[],\"pid\":\"%d\",\"tid\":%d",
                  (int)t->pid, (int)t->tid);
    pb_buf_puts(out, ",\"markers\":{\"length\":0,\"data\":[],\"name\":[],\"startTime\":[],"
                     "\"endTime\":[],\"phase\":[],\"category\":[]},"
                     "\"resourceTable\":{\"length\":0,\"lib\":[],\"name\":[],\"host\":[],"
                     "\"type\":[]},\"nativeSymbols\":{\"length\":0,\"libIndex\":[],"
                     "\"address\":[],\"name\":[],\"functionSize\":[]}");
    put_samples(r, thread, &a, out);
    put_frames(&r->stacks, out);
    put_stacks(&r->stacks, out);
    pb_buf_putc(out, '}');
    pb_arena_finish(&a);
}

void pb_format_gecko(const struct pb_recording *r, struct pb_buf *out)
{
    bool *used = calloc(r->nthreads + 1, 1), first = true;

    put_meta(r, out);
    for (size_t i = 0; used && i < r->nentries; i++)
        used[r->entries[i].thread] = true;
    for (size_t t = 0; used && t < r->nthreads; t++) {
        if (!used[t])
            continue;
        pb_buf_puts(out, first ? "\n" : ",\n");
        first = false;
        put_thread(r, t, out);
    }
    pb_buf_puts(out, "]}\n");
    free(used);
}
