#include "cluster/ranges.h"

#include <stdlib.h>
#include <string.h>

#include "host/text/alloc.h"

void pb_ranges_finish(struct pb_ranges *r)
{
    free(r->v);
    *r = (struct pb_ranges){0};
}

/* Index of the first range that ends at or behind this number. */
static size_t place_of(const struct pb_ranges *r, uint32_t value)
{
    size_t low = 0, high = r->n;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (r->v[mid].last < value)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

bool pb_ranges_has(const struct pb_ranges *r, uint32_t value)
{
    size_t at = place_of(r, value);

    return at < r->n && r->v[at].first <= value;
}

bool pb_ranges_add(struct pb_ranges *r, uint32_t first, uint32_t last)
{
    size_t from, to;

    if (first > last || last > PB_RANGES_VALUE_MAX)
        return false;
    from = place_of(r, first ? first - 1 : 0); /* a neighbour joins, too */
    for (to = from; to < r->n && r->v[to].first <= last + 1; to++) {
        first = r->v[to].first < first ? r->v[to].first : first;
        last = r->v[to].last > last ? r->v[to].last : last;
    }
    if (from == to) {
        if (r->n == PB_RANGES_MAX)
            return false;
        if (r->n == r->cap) {
            r->cap = r->cap ? r->cap * 2 : 4;
            r->v = pb_alloc_resize(r->v, r->cap * sizeof *r->v);
        }
        memmove(r->v + from + 1, r->v + from, (r->n - from) * sizeof *r->v);
        r->n++;
    } else {
        memmove(r->v + from + 1, r->v + to, (r->n - to) * sizeof *r->v);
        r->n -= to - from - 1;
    }
    r->v[from] = (struct pb_range){first, last};
    return true;
}

bool pb_ranges_meet(const struct pb_ranges *a, const struct pb_ranges *b, uint32_t *ret_value)
{
    for (size_t i = 0, k = 0; i < a->n && k < b->n;) {
        uint32_t first = a->v[i].first > b->v[k].first ? a->v[i].first : b->v[k].first;

        if (first <= a->v[i].last && first <= b->v[k].last) {
            if (ret_value)
                *ret_value = first;
            return true;
        }
        if (a->v[i].last < b->v[k].last)
            i++;
        else
            k++;
    }
    return false;
}

void pb_ranges_without(const struct pb_ranges *a, const struct pb_ranges *b, struct pb_ranges *ret)
{
    for (size_t i = 0; i < a->n; i++) {
        uint32_t from = a->v[i].first, last = a->v[i].last;
        size_t k = place_of(b, from);

        for (; k < b->n && b->v[k].first <= last && from <= last; k++) {
            if (b->v[k].first > from)
                pb_ranges_add(ret, from, b->v[k].first - 1);
            from = b->v[k].last + 1;
        }
        if (from <= last)
            pb_ranges_add(ret, from, last);
    }
}

uint64_t pb_ranges_count(const struct pb_ranges *r)
{
    uint64_t count = 0;

    for (size_t i = 0; i < r->n; i++)
        count += (uint64_t)r->v[i].last - r->v[i].first + 1;
    return count;
}

/* Digits at *text as a number; false when there are none or too many. */
static bool number(const char **text, uint32_t *ret)
{
    uint64_t v = 0;
    const char *p = *text;

    for (; *p >= '0' && *p <= '9' && v <= PB_RANGES_VALUE_MAX; p++)
        v = v * 10 + (uint64_t)(*p - '0');
    if (p == *text || v > PB_RANGES_VALUE_MAX)
        return false;
    *ret = (uint32_t)v;
    *text = p;
    return true;
}

int pb_ranges_parse(struct pb_ranges *r, const char *text, struct pb_err *err)
{
    const char *p = text;

    for (;;) {
        uint32_t first, last;

        if (!number(&p, &first))
            break;
        last = first;
        if (*p == '-') {
            p++;
            if (!number(&p, &last))
                break;
        }
        if (!pb_ranges_add(r, first, last))
            break;
        if (!*p)
            return 0;
        if (*p++ != ',')
            break;
    }
    return pb_err_set(err, PB_USAGE, "'%.60s' is no set of ranks such as 17 or 0-7,9", text);
}

void pb_ranges_text(const struct pb_ranges *r, struct pb_buf *b)
{
    for (size_t i = 0; i < r->n; i++) {
        pb_buf_printf(b, "%s%u", i ? "," : "", r->v[i].first);
        if (r->v[i].last != r->v[i].first)
            pb_buf_printf(b, "-%u", r->v[i].last);
    }
}
