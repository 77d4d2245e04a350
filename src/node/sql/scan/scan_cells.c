#include "node/sql/scan/scan_cells.h"

#include <stdlib.h>
#include <string.h>

#include "host/text/alloc.h"
#include "host/text/secret.h"
#include "node/sql/internal.h"
#include "schema/probing_audit.h"

enum { TEXT_MAX = 64 << 10 };

void pb_scan_cells_finish(struct pb_scan_cells *w)
{
    pb_scan_dict_finish(&w->dict);
    pb_reader_window_finish(&w->window);
    free(w->text);
    w->text = NULL;
}

static void mark_null(uint64_t **validity, duckdb_vector v, size_t i)
{
    if (!*validity) {
        pb_duck()->vector_ensure_validity_writable(v);
        *validity = pb_duck()->vector_get_validity(v);
    }
    (*validity)[i / 64] &= ~((uint64_t)1 << (i % 64));
}

static void finish_ints(duckdb_vector v, int64_t *cells, size_t n, bool is_time)
{
    uint64_t *validity = NULL;

    for (size_t i = 0; i < n; i++)
        if (cells[i] == PB_NULL_INT)
            mark_null(&validity, v, i);
    /* Nanoseconds to microseconds, downwards also before 1970. */
    for (size_t i = 0; is_time && i < n; i++)
        cells[i] = cells[i] / 1000 - (cells[i] % 1000 < 0);
}

static void ints_to_reals(char *cells, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int64_t whole;
        double real;

        memcpy(&whole, cells + i * sizeof whole, sizeof whole);
        real = (double)whole;
        memcpy(cells + i * sizeof real, &real, sizeof real);
    }
}

static void finish_reals(duckdb_vector v, const uint64_t *cells, size_t n)
{
    uint64_t *validity = NULL;

    for (size_t i = 0; i < n; i++)
        if (cells[i] == PB_NULL_REAL_BITS)
            mark_null(&validity, v, i);
}

static void finish_bools(duckdb_vector v, uint8_t *cells, size_t n)
{
    uint64_t *validity = NULL;

    for (size_t i = 0; i < n; i++) {
        if (cells[i] == PB_NULL_BOOL)
            mark_null(&validity, v, i);
        cells[i] = cells[i] == 1;
    }
}

/* Code that somebody evaluated, in an answer and in files of history. */
static void put_masked(struct pb_scan_cells *w, duckdb_vector v, size_t row, size_t len)
{
    struct pb_arena a = PB_ARENA_INIT;
    const char *shown;

    w->text[len] = '\0';
    shown = pb_secret_text(w->text, &a);
    pb_sql_put_text(pb_duck(), v, row, shown, strlen(shown));
    pb_arena_finish(&a);
}

static void finish_texts(struct pb_scan_cells *w, const struct pb_reader *r, duckdb_vector v,
                         const uint64_t *cells, size_t n)
{
    const struct pb_duck *d = pb_duck();
    bool mask = strcmp(r->name, PB_PROBING_AUDIT_NAME) == 0;
    uint64_t *validity = NULL;

    if (!w->text)
        w->text = pb_alloc_resize(NULL, TEXT_MAX);
    for (size_t i = 0; i < n; i++) {
        long len = pb_reader_text_at(&w->window, r, cells[i], w->text, TEXT_MAX - 1);

        if (len < 0)
            mark_null(&validity, v, i);
        else if (mask)
            put_masked(w, v, i, (size_t)len);
        else
            pb_sql_put_text(d, v, i, w->text, (size_t)len);
    }
}

void pb_scan_cells_put(struct pb_scan_cells *w, const struct pb_reader *r, enum pb_type type,
                       enum pb_type wanted, duckdb_vector v, void *cells, size_t n)
{
    switch (type) {
    case PB_TIME:
    case PB_INT:
        finish_ints(v, cells, n, type == PB_TIME);
        if (wanted == PB_REAL)
            ints_to_reals(cells, n);
        break;
    case PB_REAL:
        finish_reals(v, cells, n);
        break;
    case PB_BOOL:
        finish_bools(v, cells, n);
        break;
    case PB_NAME:
        pb_scan_dict_put(&w->dict, r, cells, n, v);
        break;
    case PB_TEXT:
        finish_texts(w, r, v, cells, n);
        break;
    }
}
