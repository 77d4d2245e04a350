#include "node/archive/footer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "host/text/alloc.h"

/*
 * A Parquet file ends with its metadata (Thrift, compact protocol), their length in four bytes,
 * and "PAR1". Field 2 of the metadata is the schema, field 3 the number of rows; both stand
 * before the long part about row groups, so the beginning is enough.
 */
enum { ENOUGH = 256 << 10, DEEPEST = 16 };

enum thrift {
    T_STOP = 0,
    T_TRUE = 1,
    T_FALSE = 2,
    T_BYTE = 3,
    T_I16 = 4,
    T_I32 = 5,
    T_I64 = 6,
    T_DOUBLE = 7,
    T_BINARY = 8,
    T_LIST = 9,
    T_SET = 10,
    T_MAP = 11,
    T_STRUCT = 12,
};

enum { FIELD_SCHEMA = 2, FIELD_ROWS = 3 };

struct in {
    const unsigned char *p, *end;
};

static bool get_byte(struct in *in, unsigned *ret)
{
    if (in->p == in->end)
        return false;
    *ret = *in->p++;
    return true;
}

static bool get_varint(struct in *in, uint64_t *ret)
{
    uint64_t value = 0;
    unsigned byte;

    for (int shift = 0; shift < 64; shift += 7) {
        if (!get_byte(in, &byte))
            return false;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *ret = value;
            return true;
        }
    }
    return false;
}

static bool skip_bytes(struct in *in, uint64_t n)
{
    if (n > (uint64_t)(in->end - in->p))
        return false;
    in->p += n;
    return true;
}

/* The head of a field: its type, and its number counted on from the last one. */
static bool get_field(struct in *in, unsigned *type, int64_t *id)
{
    unsigned byte;
    uint64_t raw;

    if (!get_byte(in, &byte))
        return false;
    *type = byte & 15;
    if (*type == T_STOP)
        return true;
    if (byte >> 4) {
        *id += byte >> 4;
        return true;
    }
    if (!get_varint(in, &raw) || raw > UINT16_MAX)
        return false;
    *id = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
    return true;
}

static bool skip(struct in *in, unsigned type, int depth);

static bool skip_list(struct in *in, int depth)
{
    unsigned byte;
    uint64_t n;

    if (!get_byte(in, &byte))
        return false;
    n = byte >> 4;
    if (n == 15 && !get_varint(in, &n))
        return false;
    for (byte &= 15; n; n--) {
        /* In a list a truth value is a byte; as a field it is in the head. */
        if (!skip(in, byte == T_TRUE || byte == T_FALSE ? T_BYTE : byte, depth + 1))
            return false;
    }
    return true;
}

static bool skip_struct(struct in *in, int depth)
{
    unsigned type;
    int64_t id = 0;

    for (;;) {
        if (!get_field(in, &type, &id))
            return false;
        if (type == T_STOP)
            return true;
        if (!skip(in, type, depth + 1))
            return false;
    }
}

static bool skip(struct in *in, unsigned type, int depth)
{
    uint64_t n;

    if (depth > DEEPEST)
        return false;
    switch (type) {
    case T_TRUE:
    case T_FALSE:
        return true;
    case T_BYTE:
        return skip_bytes(in, 1);
    case T_I16:
    case T_I32:
    case T_I64:
        return get_varint(in, &n);
    case T_DOUBLE:
        return skip_bytes(in, 8);
    case T_BINARY:
        return get_varint(in, &n) && skip_bytes(in, n);
    case T_LIST:
    case T_SET:
        return skip_list(in, depth);
    case T_STRUCT:
        return skip_struct(in, depth);
    default: /* no map stands before the number of rows */
        return false;
    }
}

static uint64_t hash_bytes(const unsigned char *p, const unsigned char *end)
{
    uint64_t h = pb_hash_bytes(PB_HASH_SEED, p, (size_t)(end - p));

    return h ? h : 1;
}

int pb_footer_parse(struct pb_footer *ret, const unsigned char *bytes, size_t len)
{
    struct in in = {bytes, bytes + len};
    struct pb_footer f = {0};
    int64_t id = 0;
    uint64_t raw;
    unsigned type;

    for (;;) {
        const unsigned char *start;

        if (!get_field(&in, &type, &id) || type == T_STOP)
            return -1;
        if (id == FIELD_ROWS) {
            if (type != T_I64 || !f.columns || !get_varint(&in, &raw) || raw & 1)
                return -1;
            f.rows = raw >> 1;
            *ret = f;
            return 0;
        }
        start = in.p;
        if (!skip(&in, type, 0))
            return -1;
        if (id == FIELD_SCHEMA)
            f.columns = hash_bytes(start, in.p);
    }
}

static int read_footer(struct pb_footer *ret, int fd, struct pb_err *err)
{
    unsigned char tail[8], *bytes = NULL;
    struct stat st;
    uint64_t len;
    size_t want;
    int rc = -1;

    if (fstat(fd, &st) < 0)
        return pb_err_set(err, PB_FAIL, "%s", strerror(errno));
    if (st.st_size < 12 || pread(fd, tail, 8, st.st_size - 8) != 8 ||
        memcmp(tail + 4, "PAR1", 4) != 0)
        return pb_err_set(err, PB_FAIL, "no Parquet file, or cut off");
    len = (uint64_t)tail[0] | (uint64_t)tail[1] << 8 | (uint64_t)tail[2] << 16 |
          (uint64_t)tail[3] << 24;
    if (len > (uint64_t)st.st_size - 12)
        return pb_err_set(err, PB_FAIL, "the footer is longer than the file");
    want = len < ENOUGH ? (size_t)len : ENOUGH;
    bytes = pb_alloc_resize(NULL, want + 1);
    if (pread(fd, bytes, want, st.st_size - 8 - (off_t)len) != (ssize_t)want)
        pb_err_set(err, PB_FAIL, "%s", strerror(errno));
    else if (pb_footer_parse(ret, bytes, want) < 0)
        pb_err_set(err, PB_FAIL, "the footer makes no sense");
    else
        rc = 0;
    free(bytes);
    return rc;
}

int pb_footer_read(struct pb_footer *ret, const char *path, struct pb_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), rc;

    if (fd < 0)
        return pb_err_set(err, PB_FAIL, "%s: %s", path, strerror(errno));
    rc = read_footer(ret, fd, err);
    close(fd);
    return rc < 0 ? pb_err_prefix(err, "%s", path) : 0;
}
