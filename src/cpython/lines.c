#include "cpython/lines.h"

/* Lines are unsigned inside: a damaged table may step anywhere, and wrap. */

/*
 * co_lnotab: pairs of (bytes of code, lines) to step over. A line step belongs
 * to the instruction behind the code step of the same pair.
 */
static uint32_t line_lnotab(const uint8_t *t, size_t len, uint32_t line, uint32_t offset,
                            bool is_signed)
{
    uint64_t at = 0;

    for (size_t i = 0; i + 1 < len; i += 2) {
        at += t[i];
        if (at > offset)
            break;
        line += is_signed ? (uint32_t)(int8_t)t[i + 1] : t[i + 1];
    }
    return line;
}

/* PEP 626: (bytes of code, lines); the line step comes first and -128 means no line. */
static uint32_t line_310(const uint8_t *t, size_t len, uint32_t line, uint32_t offset)
{
    uint64_t end = 0;

    for (size_t i = 0; i + 1 < len; i += 2) {
        int step = (int8_t)t[i + 1];

        if (step != -128)
            line += (uint32_t)step;
        end += t[i];
        if (offset < end)
            return step == -128 ? 0 : line;
    }
    return 0;
}

/* Six bits a byte, the lowest first; bit 6 says that more follow. */
static uint32_t read_varint(const uint8_t *t, size_t len, size_t *pos)
{
    uint32_t value = 0;

    for (unsigned shift = 0; *pos < len; shift += 6) {
        uint8_t b = t[(*pos)++];

        if (shift < 32)
            value |= (uint32_t)(b & 63) << shift;
        if (!(b & 64))
            break;
    }
    return value;
}

static int32_t read_svarint(const uint8_t *t, size_t len, size_t *pos)
{
    uint32_t value = read_varint(t, len, pos);
    int32_t half = (int32_t)(value >> 1);

    return value & 1 ? -half : half;
}

enum location_kind {
    LOC_ONE_LINE_0 = 10, /* to 12: the step is the kind less 10 */
    LOC_ONE_LINE_2 = 12,
    LOC_NO_COLUMNS = 13,
    LOC_LONG = 14,
    LOC_NONE = 15,
};

static int read_byte(const uint8_t *t, size_t len, size_t *pos)
{
    return *pos < len ? t[(*pos)++] : 0;
}

/* One entry behind its first byte. *line is the line of the entry before. */
static struct pb_py_position read_location(const uint8_t *t, size_t len, size_t *pos, int kind,
                                           uint32_t *line)
{
    struct pb_py_position p = {0, 0, -1, -1};
    uint32_t lines = 0;

    if (kind == LOC_NONE)
        return p;
    if (kind == LOC_NO_COLUMNS || kind == LOC_LONG)
        *line += (uint32_t)read_svarint(t, len, pos);
    else if (kind >= LOC_ONE_LINE_0)
        *line += (uint32_t)(kind - LOC_ONE_LINE_0);
    if (kind == LOC_LONG) {
        lines = read_varint(t, len, pos);
        p.column = (int)(read_varint(t, len, pos) & INT32_MAX) - 1;
        p.end_column = (int)(read_varint(t, len, pos) & INT32_MAX) - 1;
    } else if (kind >= LOC_ONE_LINE_0 && kind <= LOC_ONE_LINE_2) {
        p.column = read_byte(t, len, pos);
        p.end_column = read_byte(t, len, pos);
    } else if (kind < LOC_ONE_LINE_0) {
        int second = read_byte(t, len, pos);

        p.column = kind << 3 | second >> 4;
        p.end_column = p.column + (second & 15);
    }
    if (*line <= INT32_MAX)
        p.line = (int)*line;
    p.end_line = lines <= INT32_MAX - (uint32_t)p.line ? p.line + (int)lines : p.line;
    return p;
}

/*
 * PEP 657: entries of a first byte with bit 7 set and their operands. Operand
 * bytes have bit 7 clear, so a reader can always find the next entry.
 */
struct pb_py_position pb_py_position_of(const uint8_t *t, size_t len, int firstlineno,
                                        uint32_t offset)
{
    const struct pb_py_position none = {0, 0, -1, -1};
    uint32_t line = (uint32_t)firstlineno;
    uint64_t end = 0;
    size_t pos = 0;

    while (pos < len) {
        uint8_t first = t[pos++];
        struct pb_py_position p;

        if (!(first & 128))
            return none;
        p = read_location(t, len, &pos, (first >> 3) & 15, &line);
        end += 2 * ((uint64_t)(first & 7) + 1);
        if (offset < end)
            return p;
        while (pos < len && !(t[pos] & 128))
            pos++;
    }
    return none;
}

int pb_py_line(enum pb_py_lines format, const uint8_t *table, size_t len, int firstlineno,
               uint32_t offset)
{
    uint32_t first = (uint32_t)firstlineno, line = 0;

    switch (format) {
    case PB_LINES_LNOTAB_UNSIGNED:
    case PB_LINES_LNOTAB:
        line = line_lnotab(table, len, first, offset, format == PB_LINES_LNOTAB);
        break;
    case PB_LINES_TABLE_310:
        line = line_310(table, len, first, offset);
        break;
    case PB_LINES_TABLE_311:
        line = (uint32_t)pb_py_position_of(table, len, firstlineno, offset).line;
        break;
    }
    return line <= INT32_MAX ? (int)line : 0;
}
