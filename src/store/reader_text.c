#include "store/reader.h"

#include <string.h>

/* Bytes of the UTF-8 character that a text starts with; 0 when it is none. */
static size_t character(const unsigned char *p, size_t len)
{
    size_t n = p[0] < 0x80                    ? 1
               : p[0] >= 0xc2 && p[0] < 0xe0  ? 2
               : p[0] >= 0xe0 && p[0] < 0xf0  ? 3
               : p[0] >= 0xf0 && p[0] <= 0xf4 ? 4
                                              : 0;

    if (n > len)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    /* Longer than need be, half of a pair, or beyond the last one. */
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] >= 0xa0) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] >= 0x90))
        return 0;
    return n;
}

/* Where a text that goes on behind len must end, so as not to end inside a character. */
static size_t cut(const unsigned char *p, size_t len)
{
    size_t lead = len;

    while (lead > 0 && len - lead < 3 && (p[lead - 1] & 0xc0) == 0x80)
        lead--;
    if (lead == 0 || p[lead - 1] < 0xc2)
        return len;
    return character(p + lead - 1, len - lead + 1) ? len : lead - 1;
}

size_t pb_reader_clean(char *s, size_t len, bool was_cut)
{
    unsigned char *p = (unsigned char *)s;

    if (was_cut)
        len = cut(p, len);
    for (size_t i = 0; i < len;) {
        uint64_t word;
        size_t n;

        if (len - i >= sizeof word) { /* most text is plain: eight at a step */
            memcpy(&word, p + i, sizeof word);
            if ((word & UINT64_C(0x8080808080808080)) == 0) {
                i += sizeof word;
                continue;
            }
        }
        n = character(p + i, len - i);
        if (n == 0)
            p[i] = '?';
        i += n ? n : 1;
    }
    return len;
}
