#include "store/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/writer.h"

/* What a ring of minor version 0 has at least; later ones only add. */
enum { HEAD_MIN = 512, COLUMN_MIN = 192, COLUMNS_MAX = 1024 };

/* What no writer of ours exceeds. The dictionary is the one part that is held in memory. */
#define CAPACITY_MAX (UINT64_C(1) << 30)
#define SIZE_MAX_ (UINT64_C(1) << 40)
#define DICT_MAX (UINT64_C(1) << 26)

static int broken(struct pb_err *err, const char *what)
{
    return pb_err_set(err, PB_FAIL, "not a ring: %s", what);
}

static int check_version(const struct pb_ring_head *h, struct pb_err *err)
{
    if (memcmp(h->magic, PB_RING_MAGIC, sizeof h->magic) != 0)
        return broken(err, "it does not start as one");
    if (h->major != PB_RING_MAJOR)
        return pb_err_set(err, PB_FAIL, "written in version %u of the format, this reads %d",
                          h->major, PB_RING_MAJOR);
    return 0;
}

static bool is_power_of_two(uint64_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

/* A part of `count` times `width` bytes at an aligned place within the file. */
static bool fits(const struct pb_ring_head *h, uint64_t at, uint64_t count, uint64_t width)
{
    uint64_t len;

    return at % 8 == 0 && at >= HEAD_MIN && !__builtin_mul_overflow(count, width, &len) &&
           at <= h->file_size && len <= h->file_size - at;
}

static int check_sizes(const struct pb_ring_head *h, uint64_t size, struct pb_err *err)
{
    if (h->head_size < HEAD_MIN || h->column_size < COLUMN_MIN || h->column_size > 65536)
        return broken(err, "bad size of its head");
    if (h->file_size > size || h->file_size > SIZE_MAX_)
        return broken(err, "shorter than it says");
    if (h->ncolumns == 0 || h->ncolumns > COLUMNS_MAX ||
        !fits(h, h->columns_at, h->ncolumns, h->column_size))
        return broken(err, "bad columns");
    if (!is_power_of_two(h->capacity) || h->capacity > CAPACITY_MAX ||
        !fits(h, h->sequence_at, h->capacity, sizeof(uint64_t)))
        return broken(err, "bad number of rows");
    if (atomic_load_explicit(&h->next, memory_order_relaxed) > PB_READER_ROWS_MAX)
        return broken(err, "more rows written than can be");
    if (h->dict_size > DICT_MAX || (h->dict_size && !fits(h, h->dict_at, h->dict_size, 1)))
        return broken(err, "bad dictionary");
    if (h->heap_size && (!is_power_of_two(h->heap_size) || h->heap_size < 8 ||
                         !fits(h, h->heap_at, h->heap_size, 1)))
        return broken(err, "bad heap");
    return 0;
}

/* A text field, which ends within its size; what is no clean text becomes '?'. */
static void copy_text(char *to, const char *from, size_t size)
{
    size_t len = strnlen(from, size - 1);

    memcpy(to, from, len);
    to[len] = '\0';
    pb_reader_clean(to, len, false);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)to[i] < 0x20 || to[i] == 0x7f)
            to[i] = '?';
}

/* A name that can stand in SQL as it is in the file; else the column is left out. */
static bool copy_name(char *to, const char *from, size_t size)
{
    if (from[0] == '\0' || strnlen(from, size) == size)
        return false;
    copy_text(to, from, size);
    return strcmp(to, from) == 0;
}

static bool is_ring_name(const char *s)
{
    const char *dot = strchr(s, '.');
    size_t len = strlen(s);

    return dot && dot > s && dot[1] && !strchr(dot + 1, '.') &&
           strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_.") == len;
}

/* One column as the file has it; false: left out. */
static bool read_column(struct pb_reader *r, const struct pb_ring_head *h,
                        const struct pb_ring_column *from)
{
    struct pb_reader_column *c = &r->columns[r->ncolumns];

    if (!pb_type_width(from->type) || from->width != pb_type_width(from->type) ||
        !fits(h, from->at, h->capacity, from->width) ||
        !copy_name(c->name, from->name, sizeof c->name))
        return false;
    for (size_t i = 0; i < r->ncolumns; i++)
        if (strcasecmp(c->name, r->columns[i].name) == 0)
            return false;
    copy_text(c->unit, from->unit, sizeof c->unit);
    copy_text(c->doc, from->doc, sizeof c->doc);
    c->type = (enum pb_type)from->type;
    c->at = from->at;
    return true;
}

static int read_columns(struct pb_reader *r, const struct pb_ring_head *h, struct pb_err *err)
{
    struct pb_ring_column one;

    r->columns = calloc(h->ncolumns, sizeof *r->columns);
    if (!r->columns)
        return pb_err_set(err, PB_FAIL, "out of memory");
    for (uint32_t i = 0; i < h->ncolumns; i++) {
        uint64_t at = h->columns_at + (uint64_t)i * h->column_size;

        if (pread(r->fd, &one, sizeof one, (off_t)at) != (ssize_t)sizeof one)
            return broken(err, "its columns cannot be read");
        r->ncolumns += read_column(r, h, &one);
    }
    return r->ncolumns ? 0 : broken(err, "no column that this version knows");
}

static int read_head(struct pb_reader *r, struct pb_err *err)
{
    struct pb_ring_head h;
    struct stat st;

    if (fstat(r->fd, &st) < 0 || !S_ISREG(st.st_mode))
        return broken(err, "not a file");
    if (st.st_size < (off_t)sizeof h || pread(r->fd, &h, sizeof h, 0) != (ssize_t)sizeof h)
        return broken(err, "too short");
    if (check_version(&h, err) < 0 || check_sizes(&h, (uint64_t)st.st_size, err) < 0)
        return -1;
    if (!copy_name(r->name, h.name, sizeof r->name) || !is_ring_name(r->name))
        return broken(err, "bad name of its table");
    copy_text(r->doc, h.doc, sizeof r->doc);
    r->size = h.file_size;
    r->capacity = h.capacity;
    r->sequence_at = h.sequence_at;
    r->dict_at = h.dict_size ? h.dict_at : 0;
    r->dict_size = h.dict_size;
    r->heap_at = h.heap_size ? h.heap_at : 0;
    r->heap_size = h.heap_size;
    r->created_ns = h.created_ns;
    r->flags = h.flags;
    r->generation = h.generation;
    return read_columns(r, &h, err);
}

int pb_reader_open(struct pb_reader *r, int dirfd, const char *file, struct pb_err *err)
{
    *r = (struct pb_reader){.fd = -1};
    /* O_NONBLOCK: a pipe of that name must not hold us. */
    r->fd = openat(dirfd, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (r->fd < 0) {
        pb_err_set(err, errno == EACCES ? PB_DENIED : PB_FAIL, "%s", strerror(errno));
        return pb_err_prefix(err, "%s", file);
    }
    if (read_head(r, err) == 0)
        return 0;
    free(r->columns);
    close(r->fd);
    *r = (struct pb_reader){.fd = -1};
    return pb_err_prefix(err, "%s", file);
}

/* Two kinds of text are one type to whoever reads. */
static bool same_type(enum pb_type a, enum pb_type b)
{
    return a == b || ((a == PB_NAME || a == PB_TEXT) && (b == PB_NAME || b == PB_TEXT));
}

size_t pb_reader_restrict(struct pb_reader *r, const struct pb_column_spec *columns, size_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < r->ncolumns; i++)
        for (size_t k = 0; k < n; k++)
            if (strcasecmp(r->columns[i].name, columns[k].name) == 0 &&
                same_type(r->columns[i].type, columns[k].type)) {
                r->columns[kept++] = r->columns[i];
                break;
            }
    return r->ncolumns = kept;
}

void pb_reader_close(struct pb_reader *r)
{
    if (!r || !r->size)
        return;
    if (r->map)
        munmap((void *)(uintptr_t)r->map, r->size);
    close(r->fd);
    free(r->columns);
    *r = (struct pb_reader){.fd = -1};
}
