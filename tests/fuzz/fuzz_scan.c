/*
 * Any bytes as the folder of a process: its meta and a ring, read by a whole node and by the real
 * engine, as a query would. Each question is answered or refused; the node is there afterwards.
 *
 * Input: two bytes for the length of meta, meta, the ring. Asking takes milliseconds, so that is
 * done for one of a few inputs.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/home.h"
#include "node/parts.h"
#include "store/writer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap);

enum { ONE_OF = 16 };

/* What one fuzzer has; made with the first input. */
static struct {
    char root[64], process[96];
    struct pb_node *node;
} made;

static void must(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

static void remove_all(void)
{
    pb_node_destroy(made.node);
    pb_home_erase(made.process);
    rmdir(made.root);
}

static void make_folder(void)
{
    if (*made.root)
        return;
    strcpy(made.root, "/tmp/pb-fuzz-scan-XXXXXX");
    must(mkdtemp(made.root) != NULL, "no folder");
    snprintf(made.process, sizeof made.process, "%s/100-1", made.root);
    must(mkdir(made.process, 0700) == 0, "no folder");
}

static struct pb_node *node(void)
{
    struct pb_node_opts o = {.store_dir = made.root};
    struct pb_err err = {0};

    if (!made.node) {
        must(pb_node_create(&made.node, &o, &err) == 0, err.msg);
        atexit(remove_all);
    }
    return made.node;
}

/* Under a name that no reader knows, then renamed: a ring is a new file each time. */
static void put(const char *name, const void *data, size_t len)
{
    char path[160], hidden[160];
    int fd;

    snprintf(path, sizeof path, "%s/%s", made.process, name);
    snprintf(hidden, sizeof hidden, "%s/.new", made.process);
    fd = open(hidden, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    must(fd >= 0 && write(fd, data, len) == (ssize_t)len, "no file");
    close(fd);
    must(rename(hidden, path) == 0, "no file");
}

static int count(const void *data, size_t len, void *arg)
{
    const char *p = data;

    for (size_t i = 0; i < len; i++)
        *(uint64_t *)arg += (unsigned char)p[i];
    return 0;
}

static void ask(const char *sql, bool answers)
{
    static const struct pb_scope all = {.all = true};
    uint64_t sum = 0;
    struct pb_query q = {.sql = sql, .scope = &all, .format = PB_FORMAT_ROWS, .timeout_ms = 5000,
                         .max_rows = 100000, .sink = count, .arg = &sum};
    struct pb_sql_done done;
    struct pb_sql_error err;
    int rc = pb_sql_run(node()->sql, &q, &done, &err);

    must(rc == 0 || !answers, err.err.msg);
    must(rc == 0 || (*err.err.msg && !strchr(err.err.msg, '\n')), "no reason");
    pb_buf_finish(&done.notices);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t meta;
    uint32_t hash = 2166136261u;
    static int runs; /* the seeds come first, and all of them count */

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ data[i]) * 16777619u;
    if (size < 2 || (runs++ > 1 && hash % ONE_OF))
        return 0;
    meta = (size_t)data[0] | (size_t)data[1] << 8;
    meta = meta < size - 2 ? meta : size - 2;
    make_folder();
    put("meta", data + 2, meta);
    put("fuzz.rows.0.ring", data + 2 + meta, size - 2 - meta);
    ask("SELECT count(*), max(timestamp), min(line), sum(ratio) FROM fuzz.rows", false);
    ask("SELECT * FROM fuzz.rows ORDER BY ALL LIMIT 50", false);
    ask("SELECT name, rows, dropped, bytes FROM probing.tables", true);
    ask("SELECT * FROM probing.agents", true);
    return 0;
}

/* A process with a ring of all types; the second one has a meta that is not UTF-8. */
size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap)
{
    static const char meta[] = "format=1\npid=100\nhost=here\nrank=3\nworld_size=8\ncmdline=python "
                               "tr\u00e4in.py\npython=3.12.1\nboot_id=x\n";
    static const struct pb_column_spec columns[] = {
        {"timestamp", PB_TIME, "", "when"}, {"ratio", PB_REAL, "ms", ""}, {"flag", PB_BOOL, "", ""},
        {"word", PB_NAME, "", ""},          {"line", PB_TEXT, "", ""},    {"n", PB_INT, "", ""},
    };
    struct pb_ring_spec spec = {.name = "fuzz.rows", .doc = "", .columns = columns, .ncolumns = 6,
                                .rows = 64, .dict_bytes = 4096, .heap_bytes = 4096};
    struct pb_ring *w;
    ssize_t n;
    int dir, fd;

    make_folder();
    dir = open(made.process, O_RDONLY | O_DIRECTORY);
    if (index > 1 || pb_ring_create(&w, dir, &spec, NULL, NULL) < 0) {
        close(dir);
        return 0;
    }
    for (int i = 0; i < 200; i++) {
        static const char text[] = "a text of some length, \u00fcnd so weiter";
        union pb_cell cells[] = {
            {.i = i}, {.d = i}, {.b = i & 1}, {.name = pb_ring_name(w, text, (size_t)(i % 20))},
            {.text = {text, (size_t)(i % (int)sizeof text)}}, {.i = i},
        };

        pb_ring_append(w, cells);
    }
    pb_ring_close(w);
    buf[0] = sizeof meta - 1;
    buf[1] = 0;
    memcpy(buf + 2, meta, sizeof meta - 1);
    if (index == 1)
        memset(strstr((char *)buf + 2, "here"), 0xff, 4);
    fd = openat(dir, "fuzz.rows.0.ring", O_RDONLY);
    n = read(fd, buf + 1 + sizeof meta, cap - 1 - sizeof meta);
    close(fd);
    unlinkat(dir, "fuzz.rows.0.ring", 0);
    close(dir);
    return n > 0 ? sizeof meta + 1 + (size_t)n : 0;
}
