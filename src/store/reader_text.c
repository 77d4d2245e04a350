#include "store/reader.h"

#include <stdlib.h>
#include <string.h>

#include "store/text.h"

/* A text is looked for in a copy of this much of its ring: neighbours are mostly wanted next. */
enum { WINDOW = 128 << 10 };

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

size_t pb_reader_cut(const char *s, size_t len)
{
    return cut((const unsigned char *)s, len);
}

size_t pb_reader_valid(const char *s, size_t len)
{
    const unsigned char *p = (const unsigned char *)s;

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
            return i;
        i += n;
    }
    return len;
}

size_t pb_reader_clean(char *s, size_t len, bool was_cut)
{
    if (was_cut)
        len = pb_reader_cut(s, len);
    for (size_t i = 0; i < len; i++) {
        i += pb_reader_valid(s + i, len - i);
        if (i < len)
            s[i] = '?';
    }
    return len;
}

/* Makes the window hold `len` bytes of the file from `at` on, read now unless they are there. */
static const unsigned char *fill_window(struct pb_reader_window *w, uint64_t at, uint64_t end,
                                        size_t len, bool again)
{
    size_t want = end - at < WINDOW ? (size_t)(end - at) : WINDOW;

    if (at > end || len > end - at)
        return NULL;
    if (!again && at >= w->at && at - w->at <= w->len && len <= w->len - (at - w->at))
        return w->bytes + (at - w->at);
    w->len = 0;
    if (want < len)
        want = len;
    if (want > w->cap) {
        unsigned char *bytes = realloc(w->bytes, want);

        if (!bytes)
            return NULL;
        w->bytes = bytes;
        w->cap = want;
    }
    if (!pb_reader_bytes(w->r, at, w->bytes, want))
        return NULL;
    pb_fence_acquire(); /* what is read behind this is no older */
    w->at = at;
    w->len = want;
    w->fresh = true;
    return w->bytes;
}

void pb_reader_window_finish(struct pb_reader_window *w)
{
    free(w->bytes);
    *w = (struct pb_reader_window){.r = w->r};
}

static struct pb_ring_text text_head(const unsigned char *p)
{
    struct pb_ring_text head;

    memcpy(&head, p, sizeof head);
    return head;
}

uint64_t pb_reader_dict_used(const struct pb_reader *r)
{
    uint32_t used = 0;

    if (!pb_reader_bytes(r, offsetof(struct pb_ring_head, dict_used), &used, sizeof used))
        return 0;
    return used < r->dict_size ? used : r->dict_size;
}

/* The complete entry at this place of the dictionary; NULL when there is none. */
static const char *entry(struct pb_reader_window *w, uint64_t at, size_t *ret_len)
{
    uint64_t end = w->r->dict_at + w->r->dict_size;
    const unsigned char *p =
        fill_window(w, w->r->dict_at + at, end, sizeof(struct pb_ring_text), false);
    struct pb_ring_text head;

    *ret_len = 0;
    if (!p)
        return NULL;
    head = text_head(p);
    if (head.len > PB_READER_TEXT_MAX)
        return NULL;
    p = fill_window(w, w->r->dict_at + at, end, sizeof head + head.len, false);
    if (!p)
        return NULL;
    /* The window may have moved on, to an entry that says something else by now. */
    head.hash = text_head(p).hash;
    if (text_head(p).len != head.len)
        return NULL;
    *ret_len = head.len;
    return head.hash ? (const char *)p + sizeof head : NULL;
}

long pb_reader_name(const struct pb_reader *r, uint32_t name, char *buf, size_t cap)
{
    uint64_t at = ((uint64_t)name - 1) * 8;
    struct pb_reader_window w = {.r = r};
    const char *s = NULL;
    size_t len;
    long got = -1;

    if (name != PB_NULL_NAME && at < pb_reader_dict_used(r))
        s = entry(&w, at, &len);
    if (s) {
        got = len < cap ? (long)len : (long)cut((const unsigned char *)s, cap);
        memcpy(buf, s, (size_t)got);
    }
    pb_reader_window_finish(&w);
    return got;
}

void pb_reader_names(const struct pb_reader *r,
                     void (*each)(uint32_t name, const char *s, size_t len, void *arg), void *arg)
{
    uint64_t used = pb_reader_dict_used(r);
    struct pb_reader_window w = {.r = r};
    size_t len;

    /* Where there is not even a length a writer came no further; the next one may have. */
    for (uint64_t at = 0; at < used; at += pb_text_space(len)) {
        const char *s = entry(&w, at, &len);

        if (s)
            each((uint32_t)(at / 8 + 1), s, len, arg);
    }
    pb_reader_window_finish(&w);
}

/* What the window says of a text; -1 when it is not there, was overwritten or makes no sense. */
static long text_in(struct pb_reader_window *w, uint64_t at, char *buf, size_t cap, bool again)
{
    uint64_t in = at & (w->r->heap_size - 1), start = w->r->heap_at + in;
    uint64_t end = w->r->heap_at + w->r->heap_size;
    const unsigned char *p = fill_window(w, start, end, sizeof(struct pb_ring_text), again);
    struct pb_ring_text head;
    uint32_t hash = pb_text_seed(at);

    if (!p)
        return -1;
    head = text_head(p);
    if (head.len > PB_READER_TEXT_MAX)
        return -1;
    p = fill_window(w, start, end, sizeof head + head.len, false);
    if (!p)
        return -1;
    head.hash = text_head(p).hash;
    if (w->fresh) /* heap_next as of after the copy: what it has not passed was whole */
        w->next = pb_reader_heap_next(w->r);
    w->fresh = false;
    for (uint32_t i = 0; i < head.len; i++)
        hash = pb_text_hash_byte(hash, (char)p[sizeof head + i]);
    if (at >= w->next || w->next - at > w->r->heap_size || pb_text_hash_end(hash) != head.hash)
        return -1;
    if (head.len <= cap) {
        memcpy(buf, p + sizeof head, head.len);
        return (long)head.len;
    }
    memcpy(buf, p + sizeof head, cap);
    return (long)cut((const unsigned char *)buf, cap);
}

long pb_reader_text_at(struct pb_reader_window *w, const struct pb_reader *r, uint64_t text,
                       char *buf, size_t cap)
{
    long len;

    if (text == PB_NULL_TEXT || !r->heap_size || (text - 1) % 8 != 0)
        return -1;
    if (w->r != r)
        w->len = 0;
    w->r = r;
    len = w->len ? text_in(w, text - 1, buf, cap, false) : -1;
    /* It may have been written since the copy was made. */
    return len >= 0 ? len : text_in(w, text - 1, buf, cap, true);
}

long pb_reader_text(const struct pb_reader *r, uint64_t text, char *buf, size_t cap)
{
    struct pb_reader_window w = {.r = r};
    long len = pb_reader_text_at(&w, r, text, buf, cap);

    pb_reader_window_finish(&w);
    return len;
}
