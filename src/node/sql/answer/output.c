#include "node/sql/answer/output.h"

#include <stdlib.h>
#include <string.h>

#include "host/text/alloc.h"

enum { PIECE = 64 << 10 };

void pb_output_init(struct pb_output *o, const struct pb_query *q, struct pb_sql_done *done)
{
    *o = (struct pb_output){.query = q, .done = done, .first_statement = true};
}

static void forget_columns(struct pb_output *o)
{
    for (size_t i = 0; i < o->ncolumns; i++) {
        pb_buf_finish(&o->keys[i]);
        pb_value_type_finish(&o->types[i]);
        free(o->names[i]);
    }
    free(o->keys);
    free(o->types);
    free(o->names);
    o->keys = NULL;
    o->types = NULL;
    o->names = NULL;
    o->ncolumns = 0;
}

void pb_output_finish(struct pb_output *o)
{
    forget_columns(o);
    pb_buf_finish(&o->buf);
}

int pb_output_raw(struct pb_output *o, const void *data, size_t len, struct pb_err *err)
{
    o->done->bytes += len;
    if (len > 0 && o->query->sink(data, len, o->query->arg) != 0)
        return pb_err_set(err, PB_FAIL, "the reader went away");
    return 0;
}

int pb_output_flush(struct pb_output *o, struct pb_err *err)
{
    int rc = pb_output_raw(o, o->buf.data, o->buf.len, err);

    pb_buf_clear(&o->buf);
    return rc;
}

/* A cell of CSV: quoted when it must be. */
static void put_csv(struct pb_buf *b, const char *s, size_t len)
{
    bool quote = len == 0;

    for (size_t i = 0; i < len && !quote; i++)
        quote = s[i] == ',' || s[i] == '"' || s[i] == '\n' || s[i] == '\r';
    if (!quote) {
        pb_buf_add(b, s, len);
        return;
    }
    pb_buf_putc(b, '"');
    for (size_t i = 0; i < len; i++) {
        if (s[i] == '"')
            pb_buf_putc(b, '"');
        pb_buf_putc(b, s[i]);
    }
    pb_buf_putc(b, '"');
}

/* types: how they are called, where that is not what they are. */
static void put_header(struct pb_output *o, const char *const *types)
{
    struct pb_buf *b = &o->buf;
    struct pb_buf type = PB_BUF_INIT;

    switch (o->query->format) {
    case PB_FORMAT_ROWS:
        pb_buf_puts(b, "{\"columns\":[");
        for (size_t i = 0; i < o->ncolumns; i++) {
            pb_buf_clear(&type);
            if (types && types[i])
                pb_buf_puts(&type, types[i]);
            else
                pb_value_type_name(&o->types[i], &type);
            pb_buf_puts(b, i ? ",{\"name\":" : "{\"name\":");
            pb_value_string(b, o->names[i], strlen(o->names[i]));
            pb_buf_puts(b, ",\"type\":");
            pb_value_string(b, type.data, type.len);
            if (o->units && o->units[i]) {
                pb_buf_puts(b, ",\"unit\":");
                pb_value_string(b, o->units[i], strlen(o->units[i]));
            }
            pb_buf_putc(b, '}');
        }
        pb_buf_puts(b, "]}\n");
        pb_buf_finish(&type);
        break;
    case PB_FORMAT_JSON:
        pb_buf_putc(b, '[');
        break;
    case PB_FORMAT_CSV:
        if (!o->first_statement)
            pb_buf_putc(b, '\n');
        for (size_t i = 0; i < o->ncolumns; i++) {
            if (i)
                pb_buf_putc(b, ',');
            put_csv(b, o->names[i], strlen(o->names[i]));
        }
        if (o->ncolumns)
            pb_buf_putc(b, '\n');
        break;
    case PB_FORMAT_NDJSON:
    case PB_FORMAT_PARQUET:
        break;
    }
    o->first_statement = false;
}

static bool is_key(const struct pb_output *o, size_t n, const struct pb_buf *key)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(o->keys[i].data + (i > 0), key->data) == 0)
            return true;
    return false;
}

/* An object has each key once: of two that are called "a" the second is "a_1". */
static void make_key(struct pb_output *o, size_t i, const char *name)
{
    struct pb_buf key = PB_BUF_INIT, title = PB_BUF_INIT;
    size_t more = 0;

    do {
        pb_buf_clear(&key);
        pb_buf_clear(&title);
        pb_buf_puts(&title, name);
        if (more++)
            pb_buf_printf(&title, "_%zu", more - 1);
        pb_value_string(&key, title.data, title.len);
        pb_buf_putc(&key, ':');
    } while (is_key(o, i, &key));
    o->keys[i] = (struct pb_buf)PB_BUF_INIT;
    if (i)
        pb_buf_putc(&o->keys[i], ',');
    pb_buf_add(&o->keys[i], key.data, key.len);
    pb_buf_finish(&title);
    pb_buf_finish(&key);
}

static void add_column(struct pb_output *o, size_t i, const char *name)
{
    o->names[i] = strdup(name);
    make_key(o, i, name);
}

static void make_columns(struct pb_output *o, size_t n)
{
    forget_columns(o);
    o->rows = 0;
    o->keys = pb_alloc_resize(NULL, (n + 1) * sizeof *o->keys);
    o->types = pb_alloc_resize(NULL, (n + 1) * sizeof *o->types);
    o->names = pb_alloc_resize(NULL, (n + 1) * sizeof *o->names);
    memset(o->types, 0, (n + 1) * sizeof *o->types);
    memset(o->keys, 0, (n + 1) * sizeof *o->keys);
    memset(o->names, 0, (n + 1) * sizeof *o->names);
    o->ncolumns = n;
}

void pb_output_begin(struct pb_output *o, duckdb_result *result, const char *const *titles,
                     const char *const *types)
{
    const struct pb_duck *d = pb_duck();

    make_columns(o, d->column_count(result));
    for (size_t i = 0; i < o->ncolumns; i++) {
        duckdb_logical_type type = d->column_logical_type(result, i);

        add_column(o, i, titles && titles[i] ? titles[i] : d->column_name(result, i));
        pb_value_type_init(&o->types[i], type);
        d->destroy_logical_type(&type);
    }
    put_header(o, types);
}

static void put_row(struct pb_output *o, const duckdb_vector *vectors, uint64_t row)
{
    bool objects = o->query->format != PB_FORMAT_ROWS;
    struct pb_buf *b = &o->buf;

    if (o->query->format == PB_FORMAT_JSON && o->rows > 0)
        pb_buf_puts(b, ",\n ");
    pb_buf_putc(b, objects ? '{' : '[');
    for (size_t i = 0; i < o->ncolumns; i++) {
        if (objects)
            pb_buf_add(b, o->keys[i].data, o->keys[i].len);
        else if (i)
            pb_buf_putc(b, ',');
        if (objects || !pb_value_special(&o->types[i], vectors[i], row, b))
            pb_value_json(&o->types[i], vectors[i], row, b);
    }
    pb_buf_putc(b, objects ? '}' : ']');
    if (o->query->format != PB_FORMAT_JSON)
        pb_buf_putc(b, '\n');
}

static void put_csv_row(struct pb_output *o, const duckdb_vector *vectors, uint64_t row,
                        struct pb_buf *cell)
{
    const struct pb_duck *d = pb_duck();

    for (size_t i = 0; i < o->ncolumns; i++) {
        const uint64_t *validity = d->vector_get_validity(vectors[i]);

        if (i)
            pb_buf_putc(&o->buf, ',');
        if (validity && !(validity[row / 64] >> (row % 64) & 1))
            continue; /* NULL is nothing, an empty text is "" */
        pb_buf_clear(cell);
        pb_value_text(&o->types[i], vectors[i], row, cell);
        put_csv(&o->buf, cell->data ? cell->data : "", cell->len);
    }
    pb_buf_putc(&o->buf, '\n');
}

int pb_output_chunk(struct pb_output *o, duckdb_data_chunk chunk, struct pb_err *err)
{
    const struct pb_duck *d = pb_duck();
    duckdb_vector *vectors = pb_alloc_resize(NULL, (o->ncolumns + 1) * sizeof *vectors);
    uint64_t n = d->data_chunk_get_size(chunk);
    struct pb_buf cell = PB_BUF_INIT;
    int rc = 0;

    for (size_t i = 0; i < o->ncolumns; i++)
        vectors[i] = d->data_chunk_get_vector(chunk, i);
    for (uint64_t row = 0; row < n && rc == 0; row++) {
        if (o->query->max_rows && o->rows >= o->query->max_rows) {
            o->done->truncated = true;
            if (o->done->left_out != PB_SQL_UNKNOWN)
                o->done->left_out += n - row;
            rc = 1;
            break;
        }
        if (o->query->format == PB_FORMAT_CSV)
            put_csv_row(o, vectors, row, &cell);
        else
            put_row(o, vectors, row);
        o->rows++;
        if (o->buf.len >= PIECE)
            rc = pb_output_flush(o, err);
    }
    pb_buf_finish(&cell);
    free(vectors);
    return rc;
}

int pb_output_end(struct pb_output *o, struct pb_err *err)
{
    o->done->rows += o->rows;
    if (o->query->format == PB_FORMAT_JSON)
        pb_buf_puts(&o->buf, "]\n");
    return pb_output_flush(o, err);
}

/* All of them texts. */
int pb_output_rows(struct pb_output *o, const struct pb_rows *rows, struct pb_err *err)
{
    static const char *const before[] = {"[", "{", "{", ""}, *const after[] = {"]", "}", "}", ""};
    enum pb_format format = o->query->format;

    make_columns(o, rows->ncolumns);
    for (size_t i = 0; i < o->ncolumns; i++) {
        add_column(o, i, rows->columns[i].name);
        o->types[i].id = DUCKDB_TYPE_VARCHAR;
    }
    put_header(o, NULL);
    for (size_t r = 0; r < rows->nrows; r++, o->rows++) {
        if (format == PB_FORMAT_JSON && r > 0)
            pb_buf_puts(&o->buf, ",\n ");
        pb_buf_puts(&o->buf, before[format]);
        for (size_t i = 0; i < o->ncolumns; i++) {
            const char *s = rows->cells[r * rows->ncolumns + i].v.s;

            if (format == PB_FORMAT_JSON || format == PB_FORMAT_NDJSON)
                pb_buf_add(&o->buf, o->keys[i].data, o->keys[i].len);
            else if (i)
                pb_buf_putc(&o->buf, ',');
            if (format == PB_FORMAT_CSV)
                put_csv(&o->buf, s, strlen(s));
            else
                pb_value_string(&o->buf, s, strlen(s));
        }
        pb_buf_puts(&o->buf, after[format]);
        if (format != PB_FORMAT_JSON)
            pb_buf_putc(&o->buf, '\n');
    }
    return pb_output_end(o, err);
}
