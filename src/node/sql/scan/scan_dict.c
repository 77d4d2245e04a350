#include "node/sql/scan/scan_dict.h"

#include <stdlib.h>
#include <string.h>

#include "host/text/alloc.h"
#include "node/sql/internal.h"

enum { TRIES = 16 };

void pb_scan_dict_finish(struct pb_scan_dict *d)
{
    if (d->vector)
        d->duck->destroy_vector(&d->vector);
    free(d->slots);
    *d = (struct pb_scan_dict){.duck = d->duck};
}

static void count_one(uint32_t name, const char *s, size_t len, void *arg)
{
    (void)name;
    (void)s;
    (void)len;
    ++*(uint32_t *)arg;
}

struct fill {
    struct pb_scan_dict *dict;
    uint32_t cap;
};

static void put_one(uint32_t name, const char *s, size_t len, void *arg)
{
    struct fill *f = arg;
    struct pb_scan_dict *d = f->dict;

    /* More may have come since they were counted. */
    if (d->used >= f->cap || name >= d->nslots)
        return;
    pb_sql_put_text(d->duck, d->vector, d->used, s, len);
    d->slots[name] = d->used++;
}

static void fill(struct pb_scan_dict *d, const struct pb_reader *r)
{
    duckdb_logical_type type = d->duck->create_logical_type(DUCKDB_TYPE_VARCHAR);
    struct fill f = {d, 0};

    if (d->vector)
        d->duck->destroy_vector(&d->vector);
    pb_reader_names(r, count_one, &f.cap);
    f.cap += 1; /* place 0 */
    d->vector = d->duck->create_vector(type, f.cap);
    d->duck->destroy_logical_type(&type);
    d->duck->vector_ensure_validity_writable(d->vector);
    d->duck->vector_get_validity(d->vector)[0] &= ~(uint64_t)1;
    memset(d->duck->vector_get_data(d->vector), 0, sizeof(duckdb_string_t));
    d->bytes = pb_reader_dict_used(r);
    d->nslots = (size_t)(d->bytes / 8) + 2;
    d->slots = pb_alloc_resize(d->slots, d->nslots * sizeof *d->slots);
    memset(d->slots, 0, d->nslots * sizeof *d->slots);
    d->used = 1;
    pb_reader_names(r, put_one, &f);
    d->reader = r;
}

/* Places of all cells; false when one of them is a name that came later. */
static bool find(const struct pb_scan_dict *d, const uint32_t *cells, size_t n, uint32_t *slots)
{
    bool all = true;

    for (size_t i = 0; i < n; i++) {
        slots[i] = cells[i] < d->nslots ? d->slots[cells[i]] : 0;
        all &= slots[i] != 0 || cells[i] == PB_NULL_NAME;
    }
    return all;
}

/* Is one of the unknown ones there by now? More than a few that are not are nonsense. */
static bool has_new(const struct pb_scan_dict *d, const struct pb_reader *r, const uint32_t *cells,
                    const uint32_t *slots, size_t n)
{
    int tries = 0;

    if (pb_reader_dict_used(r) > d->bytes)
        return true;
    for (size_t i = 0; i < n && tries < TRIES; i++)
        if (slots[i] == 0 && cells[i] != PB_NULL_NAME && cells[i] < d->nslots) {
            char c;

            if (pb_reader_name(r, cells[i], &c, 1) >= 0)
                return true;
            tries++;
        }
    return false;
}

void pb_scan_dict_put(struct pb_scan_dict *d, const struct pb_reader *r, const uint32_t *cells,
                      size_t n, duckdb_vector out)
{
    /* One of its own each time: the engine keeps it as long as it likes. */
    duckdb_selection_vector selection = d->duck->create_selection_vector(n);
    uint32_t *slots = d->duck->selection_vector_get_data_ptr(selection);

    if (d->reader != r)
        fill(d, r);
    if (!find(d, cells, n, slots) && has_new(d, r, cells, slots, n)) {
        fill(d, r);
        find(d, cells, n, slots);
    }
    d->duck->vector_reference_vector(out, d->vector);
    pb_duck_dictionary(out, d->used, selection, n);
    d->duck->destroy_selection_vector(selection);
}
