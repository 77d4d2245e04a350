/*
 * Any bytes as a ring file: opened, listed, copied from several places, every name and text looked
 * up. Whatever the file says, nothing outside of it is touched and the answers keep their promises.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/reader.h"
#include "store/writer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap);

enum { ROWS = 150, TEXT = 48 };

/* The folder that inputs are put into, since a reader opens files by name. */
static struct {
    char path[32];
    int fd;
} folder = {"", -1};

static void remove_folder(void)
{
    unlinkat(folder.fd, "fuzz.ring", 0);
    rmdir(folder.path);
}

static int folder_fd(void)
{
    if (folder.fd >= 0)
        return folder.fd;
    strcpy(folder.path, "/dev/shm/pb-fuzz-XXXXXX");
    if (!mkdtemp(folder.path)) {
        strcpy(folder.path, "/tmp/pb-fuzz-XXXXXX");
        if (!mkdtemp(folder.path))
            abort();
    }
    folder.fd = open(folder.path, O_RDONLY | O_DIRECTORY);
    atexit(remove_folder);
    return folder.fd;
}

static uint64_t touched; /* what was read, so that reading is not left out */

static void touch(uint32_t name, const char *s, size_t len, void *arg)
{
    (void)arg;
    for (size_t i = 0; i < len; i++)
        touched += (unsigned char)s[i];
    touched += name;
}

static void use_cell(const struct pb_reader *r, enum pb_type type, const unsigned char *cells,
                     size_t row)
{
    char buf[TEXT];
    uint32_t name;
    uint64_t text;

    if (type == PB_NAME) {
        memcpy(&name, cells + row * sizeof name, sizeof name);
        long n = pb_reader_name(r, name, buf, sizeof buf);
        if (n > (long)sizeof buf)
            __builtin_trap();
        if (n >= 0)
            touch(name, buf, (size_t)n, NULL);
    } else if (type == PB_TEXT) {
        memcpy(&text, cells + row * sizeof text, sizeof text);
        long n = pb_reader_text(r, text, buf, sizeof buf);
        if (n > (long)sizeof buf)
            __builtin_trap();
        if (n > 0 && pb_reader_clean(buf, (size_t)n, false) != (size_t)n)
            __builtin_trap();
    }
}

static void copy_from(const struct pb_reader *r, uint64_t first)
{
    size_t *columns = malloc(r->ncolumns * sizeof *columns);
    void **out = malloc(r->ncolumns * sizeof *out);
    uint64_t rows[ROWS], waiting;
    size_t n;

    for (size_t i = 0; i < r->ncolumns; i++) {
        columns[i] = r->ncolumns - 1 - i;
        out[i] = malloc(ROWS * sizeof(uint64_t));
    }
    n = pb_reader_copy(r, first, ROWS, columns, r->ncolumns, out, rows, &waiting);
    if (n > ROWS)
        __builtin_trap();
    for (size_t k = 0; k < n; k++) {
        if (rows[k] - first >= ROWS || (k > 0 && rows[k] <= rows[k - 1] && rows[k] >= first))
            __builtin_trap();
        for (size_t i = 0; i < r->ncolumns; i++)
            use_cell(r, r->columns[columns[i]].type, out[i], k);
    }
    for (size_t i = 0; i < r->ncolumns; i++)
        free(out[i]);
    free(out);
    free(columns);
}

static void use(const struct pb_reader *r)
{
    uint64_t first, next;

    if (!strchr(r->name, '.') || r->ncolumns == 0)
        __builtin_trap();
    for (size_t i = 0; i < r->ncolumns; i++)
        if (!r->columns[i].name[0] || strlen(r->columns[i].name) >= PB_RING_COLUMN_NAME)
            __builtin_trap();
    pb_reader_range(r, &first, &next);
    if (first > next || next - first > r->capacity)
        __builtin_trap();
    copy_from(r, 0);
    copy_from(r, first);
    copy_from(r, next - 3);
    copy_from(r, UINT64_MAX - 70);
    pb_reader_names(r, touch, NULL);
    touched += pb_reader_dropped(r) + pb_reader_unnamed(r) + pb_reader_closed(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int dir = folder_fd();
    int fd = openat(dir, "fuzz.ring", O_CREAT | O_TRUNC | O_WRONLY, 0600);
    struct pb_err err = {0};
    struct pb_reader r;

    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    close(fd);
    if (pb_reader_open(&r, dir, "fuzz.ring", &err) == 0)
        use(&r);
    else if (err.code == PB_OK)
        __builtin_trap();
    pb_reader_close(&r);
    return 0;
}

static size_t read_ring(const char *file, uint8_t *buf, size_t cap)
{
    int fd = openat(folder_fd(), file, O_RDONLY);
    ssize_t n = read(fd, buf, cap);

    close(fd);
    unlinkat(folder_fd(), file, 0);
    return n > 0 ? (size_t)n : 0;
}

/* Real rings: one of all types that has gone round, one of plain numbers that has not. */
size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap)
{
    static const struct pb_column_spec columns[] = {
        {"timestamp", PB_TIME, "", "when"}, {"ratio", PB_REAL, "ms", ""}, {"flag", PB_BOOL, "", ""},
        {"word", PB_NAME, "", ""},          {"line", PB_TEXT, "", ""},
    };
    struct pb_ring_spec spec = {.name = "fuzz.ring",
                                .doc = "",
                                .columns = columns,
                                .ncolumns = index == 0 ? 5 : 3,
                                .rows = 64,
                                .dict_bytes = 4096,
                                .heap_bytes = 4096};
    struct pb_ring *w;

    if (index > 1 || pb_ring_create(&w, folder_fd(), &spec, NULL, NULL) < 0)
        return 0;
    for (int i = 0; i < (index == 0 ? 200 : 40); i++) {
        static const char text[] = "a text of some length, ünd so weiter";
        union pb_cell cells[] = {
            {.i = i},
            {.d = i},
            {.b = i & 1},
            {.name = pb_ring_name(w, text, (size_t)(i % 20))},
            {.text = {text, (size_t)(i % (int)sizeof text)}},
        };

        pb_ring_append(w, cells);
    }
    pb_ring_close(w);
    return read_ring("fuzz.ring.0.ring", buf, cap);
}
