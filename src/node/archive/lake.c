#include "node/archive/lake.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host/text/alloc.h"

void pb_lake_finish(struct pb_lake *l)
{
    for (size_t i = 0; i < l->nseries; i++) {
        free(l->series[i]->parts);
        free(l->series[i]);
    }
    free(l->series);
    l->series = NULL;
    l->nseries = l->cap = 0;
}

static int compare_ids(const struct pb_series_id *a, const struct pb_series_id *b)
{
    int d = strcmp(a->table, b->table);

    if (!d)
        d = strcmp(a->process, b->process);
    if (!d)
        d = strcmp(a->host, b->host);
    if (!d)
        d = (a->ring > b->ring) - (a->ring < b->ring);
    return d;
}

/* Where the series is or would be. */
static size_t series_index(const struct pb_lake *l, const struct pb_series_id *id, bool *ret_found)
{
    size_t low = 0, high = l->nseries;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int d = compare_ids(&l->series[middle]->id, id);

        if (!d) {
            *ret_found = true;
            return middle;
        }
        if (d < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_found = false;
    return low;
}

void pb_series_name(struct pb_series_id *id, const char *table, const char *host,
                    const char *process, uint64_t ring)
{
    *id = (struct pb_series_id){.ring = ring};
    snprintf(id->table, sizeof id->table, "%s", table);
    snprintf(id->process, sizeof id->process, "%s", process);
    pb_lake_host(id->host, host);
}

struct pb_series *pb_lake_find(struct pb_lake *l, const struct pb_series_id *id)
{
    bool found;
    size_t at = series_index(l, id, &found);

    return found ? l->series[at] : NULL;
}

struct pb_series *pb_lake_series(struct pb_lake *l, const struct pb_series_id *id)
{
    struct pb_series *s;
    bool found;
    size_t at = series_index(l, id, &found);

    if (found)
        return l->series[at];
    if (l->nseries == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 64;
        l->series = pb_alloc_resize(l->series, l->cap * sizeof(*l->series));
    }
    s = pb_alloc_resize(NULL, sizeof *s);
    *s = (struct pb_series){.id = *id};
    memmove(l->series + at + 1, l->series + at, (l->nseries - at) * sizeof(*l->series));
    l->series[at] = s;
    l->nseries++;
    return s;
}

uint64_t pb_series_sealed(const struct pb_series *s)
{
    uint64_t sealed = 0;

    for (size_t i = 0; i < s->nparts; i++)
        if (s->parts[i].last >= sealed)
            sealed = s->parts[i].last + 1;
    return sealed;
}

void pb_lake_add(struct pb_lake *l, struct pb_series *s, const struct pb_part *part)
{
    size_t at = s->nparts;

    if (s->nparts == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 4;
        s->parts = pb_alloc_resize(s->parts, s->cap * sizeof(*s->parts));
    }
    /* The longer one of two that begin alike comes first. */
    while (at && (s->parts[at - 1].first > part->first ||
                  (s->parts[at - 1].first == part->first && s->parts[at - 1].last < part->last)))
        at--;
    memmove(s->parts + at + 1, s->parts + at, (s->nparts - at) * sizeof(*s->parts));
    s->parts[at] = *part;
    s->nparts++;
    l->bytes += part->bytes;
}

void pb_lake_drop(struct pb_lake *l, struct pb_series *s, size_t at)
{
    l->bytes -= s->parts[at].bytes;
    s->nparts--;
    memmove(s->parts + at, s->parts + at + 1, (s->nparts - at) * sizeof(*s->parts));
}

long pb_series_part(const struct pb_series *s, uint64_t first, uint64_t last)
{
    for (size_t i = 0; i < s->nparts; i++)
        if (s->parts[i].first == first && s->parts[i].last == last)
            return (long)i;
    return -1;
}

void pb_lake_prune(struct pb_lake *l, bool (*keep)(const struct pb_series *s, void *arg),
                   void *arg)
{
    size_t kept = 0;

    for (size_t i = 0; i < l->nseries; i++) {
        if (l->series[i]->nparts || keep(l->series[i], arg)) {
            l->series[kept++] = l->series[i];
            continue;
        }
        free(l->series[i]->parts);
        free(l->series[i]);
    }
    l->nseries = kept;
}

/* Sorted by first row, so one look back at the furthest end is enough. */
static void drop_stale(struct pb_lake *l, struct pb_series *s, struct pb_finds *stale)
{
    uint64_t end = 0; /* behind the furthest row so far */

    for (size_t i = 0; i < s->nparts; i++) {
        struct pb_part *p = &s->parts[i];

        if (p->last >= end) {
            end = p->last + 1;
            continue;
        }
        if (stale->n == stale->cap) {
            stale->cap = stale->cap ? 2 * stale->cap : 16;
            stale->found = pb_alloc_resize(stale->found, stale->cap * sizeof(*stale->found));
        }
        stale->found[stale->n++] = (struct pb_found){.key = s->id, .part = *p};
        pb_lake_drop(l, s, i--);
    }
}

void pb_lake_replace(struct pb_lake *l, const struct pb_finds *f, struct pb_finds *ret_stale)
{
    l->scan++;
    for (size_t i = 0; i < f->n; i++) {
        struct pb_series *s = pb_lake_series(l, &f->found[i].key);
        struct pb_part part = f->found[i].part;
        long at = pb_series_part(s, part.first, part.last);

        if (at >= 0 && s->parts[at].day == part.day) {
            s->parts[at].seen = l->scan;
            continue;
        }
        part.seen = l->scan;
        pb_lake_add(l, s, &part);
    }
    for (size_t i = 0; i < l->nseries; i++) {
        struct pb_series *s = l->series[i];

        for (size_t k = s->nparts; k-- > 0;)
            if (s->parts[k].seen != l->scan)
                pb_lake_drop(l, s, k);
        drop_stale(l, s, ret_stale);
    }
}

void pb_finds_finish(struct pb_finds *f)
{
    free(f->found);
    *f = (struct pb_finds){0};
}

bool pb_lake_is_table(const char *name)
{
    size_t dots = 0, run = 0, n = 0;

    for (; name[n]; n++) {
        if (name[n] == '.') {
            if (!run || dots++)
                return false;
            run = 0;
        } else if (islower((unsigned char)name[n]) || isdigit((unsigned char)name[n]) ||
                   name[n] == '_') {
            run++;
        } else {
            return false;
        }
    }
    return dots == 1 && run && n < PB_RING_NAME;
}

void pb_lake_host(char buf[PB_LAKE_HOST_MAX], const char *host)
{
    size_t n = 0;

    for (; host[n] && n + 1 < PB_LAKE_HOST_MAX; n++) {
        unsigned char c = (unsigned char)host[n];

        buf[n] = (char)(c < 128 && (isalnum(c) || c == '-' || c == '_' || (c == '.' && n)) ? c
                                                                                         : '_');
    }
    buf[n] = '\0';
    if (!n)
        snprintf(buf, PB_LAKE_HOST_MAX, "unknown");
}

void pb_lake_date(char buf[16], int32_t day)
{
    time_t seconds = (time_t)day * 86400;
    struct tm tm;

    gmtime_r(&seconds, &tm);
    strftime(buf, 16, "%Y-%m-%d", &tm);
}

void pb_part_name(char *buf, const struct pb_series_id *s, const struct pb_part *p)
{
    snprintf(buf, PB_LAKE_NAME_MAX, "part-%" PRIu64 "-%" PRIu64 "-%" PRIu64 ".parquet", s->ring,
             p->first, p->last);
}

/* Plain digits as %u writes them, so that a name and its numbers stand for each other. */
static bool get_number(const char **p, char until, uint64_t *ret)
{
    uint64_t value = 0;
    const char *start = *p;

    while (isdigit((unsigned char)**p)) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(**p - '0'), &value))
            return false;
        ++*p;
    }
    if (*p == start || (*start == '0' && *p - start > 1) || **p != until)
        return false;
    ++*p;
    *ret = value;
    return true;
}

bool pb_part_parse(const char *name, uint64_t *ret_ring, uint64_t *ret_first, uint64_t *ret_last)
{
    if (strncmp(name, "part-", 5) != 0)
        return false;
    name += 5;
    return get_number(&name, '-', ret_ring) && get_number(&name, '-', ret_first) &&
           get_number(&name, '.', ret_last) && strcmp(name, "parquet") == 0 &&
           *ret_first <= *ret_last && *ret_last < UINT64_MAX;
}

int pb_part_folder(const struct pb_lake *l, const struct pb_series_id *s, int32_t day, char *buf)
{
    char date[16];
    int n;

    pb_lake_date(date, day);
    n = snprintf(buf, PB_LAKE_PATH_MAX, "%s/%s/date=%s/host=%s/process=%s", l->root, s->table,
                 date, s->host, s->process);
    return n < PB_LAKE_PATH_MAX - 2 * PB_LAKE_NAME_MAX ? 0 : -1;
}

int pb_part_path(const struct pb_lake *l, const struct pb_series_id *s, const struct pb_part *p,
                 char *buf)
{
    size_t n;

    if (pb_part_folder(l, s, p->day, buf) < 0)
        return -1;
    n = strlen(buf);
    buf[n] = '/';
    pb_part_name(buf + n + 1, s, p);
    return 0;
}
