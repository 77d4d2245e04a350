/*
 * create.c - making a ring: layout, room, head, lanes.
 *
 * A ring appears in its folder complete: it is made under a name with a dot in front and renamed.
 */
#include <errno.h>
#include <stdio.h> /* renameat */
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "store/file.h"
#include "store/ring.h"
#include "store/text.h"
#include "store/writer.h"

#define ROWS_MAX (UINT64_C(1) << 30)
#define TEXT_MIN UINT64_C(4096)
#define TEXT_MAX (UINT64_C(1) << 30)

/* Columns start at different cache lines of a page: rows then do not fight for one set. */
enum { STAGGER = 5 * 64 };

static const char note_less[] = "less room than wanted: fewer rows are kept";

struct layout {
    uint64_t capacity, dict_size, heap_size;
    uint64_t sequence_at, dict_at, heap_at, file_size;
    uint64_t at[PB_RING_COLUMNS_MAX];
    uint64_t index_size; /* private */
};

static uint64_t power_of_two(uint64_t wanted, uint64_t min, uint64_t max)
{
    uint64_t n = min;

    while (n < wanted && n < max)
        n *= 2;
    return n;
}

static size_t count_type(const struct pb_ring_spec *spec, enum pb_type type)
{
    size_t n = 0;

    for (size_t i = 0; i < spec->ncolumns; i++)
        n += spec->columns[i].type == type;
    return n;
}

static uint64_t text_size(uint64_t wanted, uint64_t default_value, unsigned halvings)
{
    uint64_t size = power_of_two(wanted ? wanted : default_value, TEXT_MIN, TEXT_MAX) >> halvings;

    return size < TEXT_MIN ? TEXT_MIN : size;
}

/* The layout when everything is halved `halvings` times. */
static struct layout lay_out(const struct pb_ring_spec *spec, unsigned halvings)
{
    struct layout l = {0};
    uint64_t at = sizeof(struct pb_ring_head) + spec->ncolumns * sizeof(struct pb_ring_column);

    l.capacity = power_of_two(spec->rows, PB_RING_ROWS_MIN, ROWS_MAX) >> halvings;
    if (l.capacity < PB_RING_ROWS_MIN)
        l.capacity = PB_RING_ROWS_MIN;
    if (count_type(spec, PB_NAME))
        l.dict_size = text_size(spec->dict_bytes, 64 * 1024, halvings);
    if (count_type(spec, PB_TEXT))
        l.heap_size = text_size(spec->heap_bytes, 256 * 1024, halvings);
    at = (at + 63) & ~UINT64_C(63);
    l.sequence_at = at;
    at += l.capacity * 8;
    for (size_t i = 0; i < spec->ncolumns; i++) {
        l.at[i] = at += STAGGER;
        at = (at + l.capacity * pb_type_width(spec->columns[i].type) + 63) & ~UINT64_C(63);
    }
    l.dict_at = at;
    l.heap_at = at + l.dict_size;
    l.file_size = (l.heap_at + l.heap_size + 4095) & ~UINT64_C(4095);
    /* The smallest entry takes 8 bytes: twice as many places as there can be entries. */
    l.index_size = l.dict_size / 8 * 2 * sizeof(uint64_t);
    return l;
}

uint64_t pb_ring_wants(const struct pb_ring_spec *spec)
{
    return lay_out(spec, 0).file_size;
}

static bool is_word(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!(s[i] >= 'a' && s[i] <= 'z') && !(s[i] >= '0' && s[i] <= '9') && s[i] != '_')
            return false;
    return len > 0;
}

static bool is_column_name(const char *s)
{
    size_t len = strlen(s);

    for (size_t i = 0; i < len; i++)
        if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
            return false;
    return len > 0 && len < PB_RING_COLUMN_NAME;
}

/* SQL does not tell upper case from lower. */
static bool is_same_name(const char *a, const char *b)
{
    for (; *a || *b; a++, b++) {
        int x = *a >= 'A' && *a <= 'Z' ? *a + 32 : *a, y = *b >= 'A' && *b <= 'Z' ? *b + 32 : *b;

        if (x != y)
            return false;
    }
    return true;
}

static int check_spec(const struct pb_ring_spec *spec, struct pb_err *err)
{
    const char *dot = strchr(spec->name, '.');

    if (!dot || strlen(spec->name) >= PB_RING_NAME ||
        !is_word(spec->name, (size_t)(dot - spec->name)) || !is_word(dot + 1, strlen(dot + 1)))
        return pb_err_set(err, PB_USAGE, "%.64s: a table is called schema.name, in a-z, 0-9 and _",
                          spec->name);
    if (spec->ncolumns == 0 || spec->ncolumns > PB_RING_COLUMNS_MAX)
        return pb_err_set(err, PB_USAGE, "%s: a table has 1 to %d columns, not %zu", spec->name,
                          PB_RING_COLUMNS_MAX, spec->ncolumns);
    for (size_t i = 0; i < spec->ncolumns; i++) {
        const struct pb_column_spec *c = &spec->columns[i];

        if (!is_column_name(c->name))
            return pb_err_set(err, PB_USAGE, "%s: bad column name: %.40s", spec->name, c->name);
        if (!pb_type_width(c->type))
            return pb_err_set(err, PB_USAGE, "%s.%s: no such type", spec->name, c->name);
        for (size_t k = 0; k < i; k++)
            if (is_same_name(c->name, spec->columns[k].name))
                return pb_err_set(err, PB_USAGE, "%s: two columns called %s", spec->name, c->name);
    }
    return 0;
}

/* Room for the file; halved until it fits. *l is what came out. */
static int reserve_some(int fd, const struct pb_ring_spec *spec, struct layout *l,
                        const char **ret_note)
{
    struct layout min = lay_out(spec, 30);
    int rc;

    for (unsigned halvings = 0;; halvings++) {
        *l = lay_out(spec, halvings);
        rc = pb_ring_file_reserve(fd, l->file_size);
        if (rc == 0) {
            if (halvings && ret_note)
                *ret_note = note_less;
            return 0;
        }
        if (ftruncate(fd, 0) < 0 || l->file_size == min.file_size)
            return rc;
    }
}

static void put_field(char *to, size_t size, const char *s)
{
    memcpy(to, s, pb_text_cut(s, strlen(s), size - 1)); /* the rest is zero already */
}

static void fill_file(struct pb_ring_head *h, const struct pb_ring_spec *spec,
                      const struct layout *l, uint32_t generation)
{
    struct pb_ring_column *columns = (void *)(h + 1);

    memcpy(h->magic, PB_RING_MAGIC, sizeof h->magic);
    h->major = PB_RING_MAJOR;
    h->minor = PB_RING_MINOR;
    h->head_size = sizeof *h;
    h->column_size = sizeof *columns;
    h->ncolumns = (uint32_t)spec->ncolumns;
    h->capacity = l->capacity;
    h->file_size = l->file_size;
    h->columns_at = sizeof *h;
    h->sequence_at = l->sequence_at;
    h->dict_at = l->dict_at;
    h->dict_size = l->dict_size;
    h->heap_at = l->heap_at;
    h->heap_size = l->heap_size;
    h->created_ns = (uint64_t)pb_clock_wall_ns();
    h->flags = spec->flags;
    h->generation = generation;
    put_field(h->name, sizeof h->name, spec->name);
    put_field(h->doc, sizeof h->doc, spec->doc ? spec->doc : "");
    for (size_t i = 0; i < spec->ncolumns; i++) {
        const struct pb_column_spec *c = &spec->columns[i];

        put_field(columns[i].name, sizeof columns[i].name, c->name);
        put_field(columns[i].unit, sizeof columns[i].unit, c->unit ? c->unit : "");
        put_field(columns[i].doc, sizeof columns[i].doc, c->doc ? c->doc : "");
        columns[i].type = c->type;
        columns[i].width = (uint32_t)pb_type_width(c->type);
        columns[i].at = l->at[i];
    }
}

/* The lanes of one type, behind those that are there. */
static size_t add_lanes(struct pb_ring *r, const struct pb_ring_spec *spec, const struct layout *l,
                        size_t first, enum pb_type type)
{
    size_t n = 0;

    for (size_t i = 0; i < spec->ncolumns; i++)
        if (spec->columns[i].type == type)
            r->lanes[first + n++] = (struct pb_ring_lane){(unsigned char *)r->head + l->at[i],
                                                          i * sizeof(union pb_cell)};
    return n;
}

static void fill_ring(struct pb_ring *r, const struct pb_ring_spec *spec, const struct layout *l)
{
    unsigned char *base = (unsigned char *)r->head;
    static const enum pb_type wide[] = {PB_TIME, PB_INT, PB_REAL};

    r->sequence = (void *)(base + l->sequence_at);
    r->mask = l->capacity - 1;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        r->n8 += add_lanes(r, spec, l, r->n8, wide[i]);
    r->nnames = add_lanes(r, spec, l, r->n8, PB_NAME);
    r->nbools = add_lanes(r, spec, l, r->n8 + r->nnames, PB_BOOL);
    r->ntexts = add_lanes(r, spec, l, r->n8 + r->nnames + r->nbools, PB_TEXT);
    r->dict = base + l->dict_at;
    r->dict_size = l->dict_size;
    r->heap = base + l->heap_at;
    r->heap_size = l->heap_size;
    r->index = (void *)(r + 1);
    r->index_mask = l->index_size ? l->index_size / sizeof(uint64_t) - 1 : 0;
    r->file_size = l->file_size;
}

static const char *reason(int error)
{
    switch (error) {
    case ENOSPC:
    case EDQUOT:
        return "no room left there";
    case ENOMEM:
        return "no memory";
    case EFBIG:
        return "larger than this process may make files (RLIMIT_FSIZE)";
    case EACCES:
    case EPERM:
    case EROFS:
        return "not permitted";
    case ENOENT:
    case ENOTDIR:
        return "no such folder";
    case EMFILE:
    case ENFILE:
        return "too many open files";
    default:
        return "system error";
    }
}

static int fail(struct pb_err *err, const struct pb_ring_spec *spec, const char *what, int error)
{
    enum pb_code code = error == EACCES || error == EPERM ? PB_DENIED : PB_FAIL;

    return pb_err_set(err, code, "table %s: %s: %s (errno %d)", spec->name, what, reason(error),
                      error);
}

int pb_ring_create(struct pb_ring **ret, int dirfd, const struct pb_ring_spec *spec,
                   const char **ret_note, struct pb_err *err)
{
    char file[PB_RING_FILE_NAME];
    struct layout l;
    struct pb_ring *r;
    uint32_t generation;
    void *head;
    int fd, rc;

    if (check_spec(spec, err) < 0)
        return -1;
    fd = pb_ring_file_open(dirfd, spec->name, file, &generation);
    if (fd < 0)
        return fail(err, spec, "make its file", -fd);
    rc = reserve_some(fd, spec, &l, ret_note);
    if (rc < 0) {
        fail(err, spec, "reserve its space", -rc);
        goto remove_file;
    }
    head = mmap(NULL, l.file_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (head == MAP_FAILED) {
        fail(err, spec, "map its file", errno);
        goto remove_file;
    }
    r = mmap(NULL, sizeof *r + l.index_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
             -1, 0);
    if (r == MAP_FAILED) {
        fail(err, spec, "its index", errno);
        goto unmap_file;
    }
    r->head = head;
    r->own_size = sizeof *r + l.index_size;
    fill_file(head, spec, &l, generation);
    fill_ring(r, spec, &l);
    if (renameat(dirfd, file, dirfd, file + 1) < 0) {
        fail(err, spec, "name its file", errno);
        goto unmap_ring;
    }
    close(fd);
    atomic_store_explicit(&r->live, 1, memory_order_release);
    *ret = r;
    return 0;

unmap_ring:
    munmap(r, r->own_size);
unmap_file:
    munmap(head, l.file_size);
remove_file:
    unlinkat(dirfd, file, 0);
    close(fd);
    return -1;
}
