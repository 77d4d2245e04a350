/* Any bytes as a line table: the reader ends and stays inside them. */
#include <string.h>

#include "cpython/lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap);

/* The first bytes: format, first line, offset. */
#define HEAD 9

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t offset;
    int first;

    if (size < HEAD)
        return 0;
    memcpy(&first, data + 1, sizeof first);
    memcpy(&offset, data + 5, sizeof offset);
    if (pb_py_line((enum pb_py_lines)(data[0] & 3), data + HEAD, size - HEAD, first, offset) < 0)
        __builtin_trap();
    return 0;
}

size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap)
{
    static const uint8_t table_310[] = {2, 1, 0, 0, 0, 9, 0, 0, 0, 8, 1, 4, 0x80, 6, 0xff};
    static const uint8_t table_311[] = {3, 1, 0,    0,    0, 9,    0, 0, 0, 0x81, 0x12, 0xd8,
                                        1, 2, 0xe8, 0x68, 1, 0xf0, 7, 0, 1, 1,    0xfb};
    static const uint8_t lnotab[] = {1, 1, 0, 0, 0, 44, 1, 0, 0, 255, 0, 45, 3, 2, 0xfe};
    static const struct {
        const uint8_t *data;
        size_t size;
    } seeds[] = {
        {table_310, sizeof table_310},
        {table_311, sizeof table_311},
        {lnotab, sizeof lnotab},
    };

    if (index < 0 || (size_t)index >= sizeof seeds / sizeof seeds[0] || seeds[index].size > cap)
        return 0;
    memcpy(buf, seeds[index].data, seeds[index].size);
    return seeds[index].size;
}
