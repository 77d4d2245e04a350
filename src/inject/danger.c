#include "inject/danger.h"

#include <stdlib.h>

#include "host/text/alloc.h"

void pb_danger_add(struct pb_danger *d, uint64_t lo, uint64_t hi)
{
    if (lo >= hi)
        return;
    if (d->n == d->cap) {
        d->cap = d->cap ? d->cap * 2 : 64;
        d->v = pb_alloc_resize(d->v, d->cap * sizeof *d->v);
    }
    d->v[d->n++] = (struct pb_code_range){lo, hi};
}

static int by_start(const void *a, const void *b)
{
    const struct pb_code_range *x = a, *y = b;

    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

void pb_danger_sort(struct pb_danger *d)
{
    size_t n = 0;

    if (d->n == 0)
        return;
    qsort(d->v, d->n, sizeof *d->v, by_start);
    for (size_t i = 1; i < d->n; i++) {
        if (d->v[i].lo > d->v[n].hi)
            d->v[++n] = d->v[i];
        else if (d->v[i].hi > d->v[n].hi)
            d->v[n].hi = d->v[i].hi;
    }
    d->n = n + 1;
}

bool pb_danger_has(const struct pb_danger *d, uint64_t pc)
{
    size_t lo = 0, hi = d->n;

    /* Nearly every word of a stack ends here. */
    if (d->n == 0 || pc < d->v[0].lo || pc >= d->v[d->n - 1].hi)
        return false;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (pc < d->v[mid].lo)
            hi = mid;
        else if (pc >= d->v[mid].hi)
            lo = mid + 1;
        else
            return true;
    }
    return false;
}

void pb_danger_finish(struct pb_danger *d)
{
    free(d->v);
    *d = (struct pb_danger){0};
}
