/*
 * python.heap_containers - the largest lists, dicts, sets, tuples and deques, with the variables
 * that hold them, now.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "host/process/proc.h"
#include "node/tables/read/heap.h"
#include "node/waits/waits.h"
#include "stack/source.h"

#define CONTAINERS 100
#define SOURCES 8

static pb_live_fill fill;

#define COLUMNS(X)                                                                                 \
    X(type, NAME, "", "class of the container")                                                    \
    X(module, NAME, "", "module that the class is defined in")                                     \
    X(items, INT, "", "items in the container")                                                    \
    X(bytes, INT, "B", "size of the container without its items, as sys.getsizeof() tells")        \
    X(held_by, TEXT, "", "shortest way to it from a variable of a module or a running function")   \
    X(grows_file, NAME, "", "file of the running code in which it is added to, by its name")       \
    X(grows_line, INT, "", "first line of the running code in which it is added to")               \
    X(grows_text, TEXT, "", "text of grows_line")                                                  \
    PB_LIVE_COMMON(X)

PB_TABLE_COLUMNS(COLUMNS);

const struct pb_live pb_live_python_heap_containers = {
    PB_TABLE_SPEC("python.heap_containers",
                  "the 100 largest containers of a process and those of its own variables, "
                  "with who holds them, now"),
    .fill = fill,
};

/* The program's own files that run, and their text. */
struct sources {
    const char *file[SOURCES];
    char *text[SOURCES];
    size_t n;
};

static void read_sources(struct pb_node *n, const struct pb_live_process *p, struct pb_arena *a,
                         struct sources *ret)
{
    const struct pb_snapshot_opts o = {.all = true, .max_frames = 60};
    struct pb_stack_batch *b = pb_live_stacks(n, p, 1, &o);
    struct pb_stack_read *r = pb_stack_batch_get(b, 0);
    struct pb_proc_status status = {0};
    struct pb_err ignored = {0};

    ret->n = 0;
    if (!r || r->err.code != PB_OK || pb_proc_status(&status, p->pid, &ignored) < 0)
        goto drop;
    for (size_t t = 0; t < r->snapshot.nthreads; t++)
        for (size_t i = 0; i < r->snapshot.threads[t].nframes; i++) {
            const char *file = r->snapshot.threads[t].frames[i].file;
            bool known = !file || pb_wait_is_library(file) || ret->n == SOURCES;

            for (size_t k = 0; !known && k < ret->n; k++)
                known = strcmp(ret->file[k], file) == 0;
            if (known || r->snapshot.threads[t].frames[i].native)
                continue;
            ret->file[ret->n] = pb_arena_strdup(a, file);
            ret->text[ret->n] = pb_source_text(p->pid, status.euid, file, a);
            ret->n += ret->text[ret->n] != NULL;
        }
drop:
    pb_stack_batch_drop(b);
}

/* The last name of "app.CACHE", "__main__.logger.lines", "step() at train.py:12: batch". */
static bool last_name(const char *holder, char *buf, size_t cap)
{
    size_t end = strlen(holder), start;

    while (end && holder[end - 1] == ']') /* an item of something: the thing itself grows */
        while (end && holder[--end] != '[')
            ;
    start = end;
    while (start && (isalnum((unsigned char)holder[start - 1]) || holder[start - 1] == '_'))
        start--;
    if (start == end || end - start >= cap || isdigit((unsigned char)holder[start]))
        return false;
    memcpy(buf, holder + start, end - start);
    buf[end - start] = '\0';
    return true;
}

/* The key in "__main__.t.metrics['out']", without quotes; "" where there is none. */
static void last_key(const char *holder, char *buf, size_t cap)
{
    const char *open = strrchr(holder, '[');
    size_t len = open ? strcspn(open + 1, "]") : 0;

    *buf = '\0';
    if (len > 2 && len < cap && (open[1] == '\'' || open[1] == '"'))
        snprintf(buf, cap, "%.*s", (int)len - 2, open + 2);
}

/*
 * Does something that grows a container stand behind its name? It may be an item of what is named:
 * then the text between the brackets has to have this key.
 */
static bool grows(const char *rest, const char *key)
{
    static const char *const calls[] = {".append(", ".appendleft(", ".extend(", ".add(",
                                        ".update(", ".setdefault(", ".insert(", ".put("};
    const char *close = *rest == '[' ? strchr(rest, ']') : NULL;

    if (close && *key) {
        const char *found = strstr(rest, key);

        if (!found || found > close)
            return false;
        rest = close + 1;
        close = *rest == '[' ? strchr(rest, ']') : NULL;
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strncmp(rest, calls[i], strlen(calls[i])) == 0)
            return true;
    if (strncmp(rest, " += ", 4) == 0)
        return true;
    return close && strncmp(close, "] = ", 4) == 0;
}

static int find_growth(const char *text, const char *name, const char *key,
                       const char **ret_line, size_t *ret_len)
{
    size_t len = strlen(name);
    const char *line = text, *at = text;
    int number = 1;

    while ((at = strstr(at, name))) {
        for (const char *next; (next = strchr(line, '\n')) && next < at; number++)
            line = next + 1;
        if ((at == text || (!isalnum((unsigned char)at[-1]) && at[-1] != '_')) &&
            grows(at + len, key)) {
            line += strspn(line, " \t");
            *ret_line = line;
            *ret_len = strcspn(line, "\n");
            return number;
        }
        at += len;
    }
    return 0;
}

static void set_growth(struct pb_rows *rows, struct pb_row_cell *row, const struct sources *s,
                       const char *holder, struct pb_arena *a)
{
    char name[128], key[64];
    const char *line = NULL;
    size_t len = 0;

    if (!holder || !last_name(holder, name, sizeof name))
        return;
    last_key(holder, key, sizeof key);
    for (size_t i = 0; i < s->n; i++) {
        int number = find_growth(s->text[i], name, key, &line, &len);

        if (!number && *key)
            number = find_growth(s->text[i], name, "", &line, &len);

        if (!number)
            continue;
        pb_rows_text(rows, row, AT_grows_file, s->file[i]);
        pb_rows_int(row, AT_grows_line, number);
        pb_rows_text(rows, row, AT_grows_text, pb_arena_strndup(a, line, len < 200 ? len : 200));
        return;
    }
}

static void add_containers(struct pb_node *n, const struct pb_live_process *p,
                           const struct pb_heap *h, struct pb_rows *rows)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct sources sources;

    read_sources(n, p, &a, &sources);
    for (size_t i = 0; i < h->ncontainers; i++) {
        const struct pb_heap_container *c = &h->containers[i];
        struct pb_row_cell *row = pb_rows_add(rows);

        pb_rows_text(rows, row, AT_type, c->type);
        pb_rows_text(rows, row, AT_module, c->module);
        pb_rows_int(row, AT_items, (int64_t)c->items);
        pb_rows_int(row, AT_bytes, (int64_t)c->bytes);
        if (c->holder)
            pb_rows_text(rows, row, AT_held_by, c->holder);
        set_growth(rows, row, &sources, c->holder, &a);
        pb_live_common(rows, row, n->host, p->pid, p->rank);
    }
    pb_arena_finish(&a);
}

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err)
{
    (void)wanted;
    return pb_live_heap(n, scope, "python.heap_containers", CONTAINERS, rows, add_containers, err);
}
