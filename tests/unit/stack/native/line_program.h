/*
 * A small program's debug information, built by hand: lines 10, 12 and 20 of
 * main.c at LINE_CODE + 0, 4 and 8, line 7 of an included file at + 12, end
 * at + 16. Versions 4 and 5, with the sections that lead to it.
 */
#ifndef PB_TEST_LINE_PROGRAM_H
#define PB_TEST_LINE_PROGRAM_H

#include <stdint.h>
#include <string.h>

#define LINE_CODE 0x401000u

struct bytes {
    uint8_t v[512];
    size_t n;
};

static inline void put(struct bytes *b, const void *data, size_t n)
{
    if (b->n + n <= sizeof b->v) {
        memcpy(b->v + b->n, data, n);
        b->n += n;
    }
}

static inline void put_number(struct bytes *b, uint64_t v, size_t width)
{
    put(b, &v, width);
}

static inline void put_text(struct bytes *b, const char *s)
{
    put(b, s, strlen(s) + 1);
}

/* Fills in a 4-byte length that counts what follows it. */
static inline void close_length(struct bytes *b, size_t at)
{
    uint32_t len = (uint32_t)(b->n - at - 4);

    memcpy(b->v + at, &len, sizeof len);
}

static inline void put_line_tables_4(struct bytes *b)
{
    put_text(b, "include");
    put(b, "", 1);
    put_text(b, "main.c");
    put(b, "\0\0\0", 3);
    put_text(b, "part.h");
    put(b, "\1\0\0", 3);
    put(b, "", 1);
}

/* Offsets 0, 5 and 9 of .debug_line_str: "/src", "inc", "main.c"; "part.h" stands inline. */
static inline void put_line_tables_5(struct bytes *b)
{
    put(b, "\1\1\x1f\2", 4); /* directories: one column, path as line_strp; two of them */
    put_number(b, 0, 4);
    put_number(b, 5, 4);
    put(b, "\2\1\x08\2\x0b\2", 6); /* files: path as string, directory as data1; two of them */
    put_text(b, "main.c");
    put(b, "\0", 1);
    put_text(b, "part.h");
    put(b, "\1", 1);
}

static inline void put_line_code(struct bytes *b, uint8_t first_file)
{
    uint8_t file[] = {4, first_file, 4, (uint8_t)(first_file + 1)};

    put(b, "\0\x09\2", 3); /* set_address */
    put_number(b, LINE_CODE, 8);
    put(b, file, 2);
    put(b, "\3\x09\1", 3);     /* line 10, copy */
    put(b, "\x4c", 1);         /* special: 4 bytes and 2 lines on */
    put(b, "\2\4\3\x08\1", 5); /* advance both, copy: line 20 */
    put(b, "\2\4", 2);
    put(b, file + 2, 2);
    put(b, "\3\x73\1", 3);   /* line 7 of the other file */
    put(b, "\2\4\0\1\1", 5); /* end of sequence */
}

static inline void build_line(struct bytes *b, unsigned version)
{
    static const uint8_t lengths[12] = {0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1};
    size_t start = b->n, header;

    put_number(b, 0, 4);
    put_number(b, version, 2);
    if (version == 5)
        put(b, "\x08\0", 2);
    header = b->n;
    put_number(b, 0, 4);
    put(b, "\1\1\1", 3);       /* minimum length, operations, is_stmt */
    put(b, "\xfb\x0e\x0d", 3); /* line base -5, range 14, first special opcode 13 */
    put(b, lengths, sizeof lengths);
    if (version == 5)
        put_line_tables_5(b);
    else
        put_line_tables_4(b);
    close_length(b, header);
    put_line_code(b, version == 5 ? 0 : 1);
    close_length(b, start);
}

static inline void build_line_str(struct bytes *b)
{
    put_text(b, "/src");
    put_text(b, "inc");
}

/* One compilation unit whose only attribute of interest is stmt_list. */
static inline void build_info(struct bytes *b, unsigned version, uint32_t line_offset)
{
    size_t start = b->n;

    put_number(b, 0, 4);
    put_number(b, version, 2);
    if (version == 5)
        put(b, "\1\x08", 2);
    put_number(b, 0, 4);
    if (version < 5)
        put(b, "\x08", 1);
    put(b, "\1", 1);
    put_text(b, "producer");
    put_number(b, line_offset, 4);
    close_length(b, start);
}

static inline void build_abbrev(struct bytes *b)
{
    put(b, "\1\x11\0\x25\x08\x10\x17\0\0\0", 10); /* producer: string, stmt_list: sec_offset */
}

static inline void build_aranges(struct bytes *b, uint32_t unit, uint64_t start_addr, uint64_t len)
{
    size_t start = b->n;

    put_number(b, 0, 4);
    put_number(b, 2, 2);
    put_number(b, unit, 4);
    put(b, "\x08\0", 2);
    put_number(b, 0, 4); /* up to a multiple of 16 */
    put_number(b, start_addr, 8);
    put_number(b, len, 8);
    put_number(b, 0, 8);
    put_number(b, 0, 8);
    close_length(b, start);
}

#endif
