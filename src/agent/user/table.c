/* probing.table() and append(). */
#include <stdio.h>
#include <string.h>

#include "agent/collectors/collect.h"
#include "base/pages.h"
#include "agent/user/internal.h"
#include "base/clock.h"

enum { ROWS_MAX = 1 << 24, DICT_BYTES = 256 << 10 };

struct pb_ring *pb_user_find_ring(struct pb_self *self, struct pb_user_table *t)
{
    unsigned turn = self->collect->generation;
    struct pb_ring *ring;

    if (t->failed == turn)
        return NULL;
    ring = pb_collect_ring(self, &t->spec);
    pthread_mutex_lock(&self->user->lock);
    /* It may be over by now, and then nobody would take the ring back from the table. */
    if (!self->collect->on || self->collect->generation != turn)
        ring = NULL;
    else if (!ring)
        t->failed = turn;
    else
        atomic_store_explicit(&t->ring, ring, memory_order_release);
    pthread_mutex_unlock(&self->user->lock);
    return ring;
}

static void say_misfit(struct pb_self *self, struct pb_user_table *t, size_t column)
{
    char text[PB_REASON_MAX];

    if (atomic_exchange(&t->misfit, true))
        return;
    snprintf(text, sizeof text, "%s: a value did not fit column %s and is NULL", t->name,
             t->names[column]);
    pb_collect_set_note(self, text);
}

/* The column of a name, or -1 and TypeError. */
static ssize_t find_column(struct pb_self *self, const struct pb_user_table *t,
                           struct _object *name)
{
    ssize_t len = 0;
    const char *s = self->py.PyUnicode_AsUTF8AndSize(name, &len);

    if (!s)
        return -1;
    for (size_t i = 0; i < t->spec.ncolumns; i++)
        if (strlen(t->names[i]) == (size_t)len && memcmp(t->names[i], s, (size_t)len) == 0)
            return (ssize_t)i;
    pb_user_wrong(self, "no column '%.40s' in table %s", s, t->name);
    return -1;
}

struct row {
    struct pb_ring *ring; /* NULL: the arguments are only looked at */
    union pb_cell cells[PB_RING_COLUMNS_MAX];
};

static void set(struct pb_self *self, struct pb_user_table *t, struct row *row, size_t column,
                struct _object *value)
{
    if (row->ring && !pb_user_cell(self, row->ring, t->columns[column].type, value,
                                   &row->cells[column]))
        say_misfit(self, t, column);
}

static bool set_names(struct pb_self *self, struct pb_user_table *t, struct row *row,
                      const struct pb_user_args *args)
{
    struct _object *name, *value;
    ssize_t at = 0;

    while (pb_user_next(&self->py, args, &at, &name, &value)) {
        ssize_t column = find_column(self, t, name);

        if (column < 0)
            return false;
        if ((size_t)column >= t->first && (size_t)column < t->first + (size_t)args->n) {
            pb_user_wrong(self, "two values for column '%s'", t->names[column]);
            return false;
        }
        set(self, t, row, (size_t)column, value);
    }
    return true;
}

static struct _object *append(struct _object *object, const struct pb_user_args *args)
{
    struct pb_self *self = pb_self();
    struct pb_user_table *t = *(struct pb_user_table **)pb_user_inside(self, object);
    struct row row;

    if (!t)
        return pb_user_wrong(self, "tables come from probing.table()");
    if ((size_t)args->n > t->spec.ncolumns - t->first)
        return pb_user_wrong(self, "%zd values for the %zu columns of table %s", args->n,
                             t->spec.ncolumns - t->first, t->name);
    row.ring = pb_user_ring(self, t);
    if (!row.ring && !args->names && !args->mapping)
        return pb_user_none(self);
    for (size_t i = 0; i < t->spec.ncolumns; i++)
        pb_user_null(t->columns[i].type, &row.cells[i]);
    for (ssize_t i = 0; i < args->n; i++)
        set(self, t, &row, t->first + (size_t)i, args->v[i]);
    if (!set_names(self, t, &row, args))
        return NULL;
    if (row.ring) {
        if (row.cells[0].i == PB_NULL_INT)
            row.cells[0].i = pb_clock_wall_ns();
        pb_ring_append(row.ring, row.cells);
    }
    return pb_user_none(self);
}

PB_USER_SHAPES(append)

static struct _object *describe(struct _object *object)
{
    struct pb_self *self = pb_self();
    struct pb_user_table *t = *(struct pb_user_table **)pb_user_inside(self, object);
    char text[PB_RING_NAME + 24];
    int n = snprintf(text, sizeof text, "<probing table %s>", t ? t->name : "of nobody");

    return self->py.PyUnicode_DecodeUTF8(text, n, "replace");
}

static struct _object *get_name(struct _object *object, void *closure)
{
    struct pb_self *self = pb_self();
    struct pb_user_table *t = *(struct pb_user_table **)pb_user_inside(self, object);

    (void)closure;
    return self->py.PyUnicode_DecodeUTF8(t ? t->name : "", t ? (ssize_t)strlen(t->name) : 0,
                                         "replace");
}

struct _object *pb_user_make_table_type(struct pb_self *self)
{
    /* Python keeps pointers to these. */
    static struct pb_py_method methods[2];
    static struct pb_py_getset getset[2] = {{"name", get_name, NULL, "schema and table", NULL}};
    struct pb_py_slot slots[] = {
        {PB_PY_TP_METHODS, methods}, {PB_PY_TP_GETSET, getset},
        {PB_PY_TP_REPR, (void *)describe},
        {PB_PY_TP_DOC, (void *)"A table of the program; probing.table() makes it."}, {0, NULL}};
    struct pb_py_type_spec spec = {.name = "probing.Table",
                                   .basicsize = (int)(self->user->head + sizeof(void *)),
                                   .flags = PB_PY_TYPE_FLAGS,
                                   .slots = slots};

    methods[0] = PB_USER_METHOD(&self->py, "append", append,
                                "append(*values, **values): a row, by position or by name");
    return self->py.PyType_FromSpec(&spec);
}

static bool same(const struct pb_user_table *a, const struct pb_user_table *b)
{
    if (a->spec.ncolumns != b->spec.ncolumns)
        return false;
    for (size_t i = 0; i < a->spec.ncolumns; i++)
        if (a->columns[i].type != b->columns[i].type || strcmp(a->names[i], b->names[i]) != 0)
            return false;
    return true;
}

/* columns: a tuple of (name, type, unit) tuples that the package has checked. */
static bool read_columns(struct pb_self *self, struct pb_user_table *t, struct _object *columns)
{
    const struct pb_py *py = &self->py;
    ssize_t n = py->PyTuple_Size(columns);

    if (n < 1 || n > PB_RING_COLUMNS_MAX) {
        pb_user_wrong(self, "a table has 1 to %d columns", PB_RING_COLUMNS_MAX);
        return false;
    }
    for (ssize_t i = 0; i < n; i++) {
        const char *name;
        int type;

        if (!py->PyArg_ParseTuple(py->PyTuple_GetItem(columns, i), "si", &name, &type))
            return false;
        if (type < PB_TIME || type > PB_TEXT || (i == 0 && type != PB_TIME)) {
            pb_user_wrong(self, "column types are 1 to 6, the first one is a time");
            return false;
        }
        snprintf(t->names[i], sizeof t->names[i], "%s", name);
        t->columns[i] = (struct pb_column_spec){t->names[i], (enum pb_type)type, "", ""};
    }
    t->spec.ncolumns = (size_t)n;
    return true;
}

/* The table of this name; t becomes it if there was none. Called with user->lock held. */
static struct pb_user_table *add_or_find(struct pb_user *user, struct pb_user_table *t)
{
    struct pb_user_table **at = &user->first;

    while (*at && strcmp((*at)->name, t->name) != 0)
        at = &(*at)->next;
    if (!*at)
        *at = t;
    return *at;
}

static struct _object *make_object(struct pb_self *self, struct pb_user_table *t)
{
    struct _object *object = self->py.PyType_GenericAlloc(self->user->table_type, 0);

    if (object)
        *(struct pb_user_table **)pb_user_inside(self, object) = t;
    return object;
}

/* table(name, columns, rows, first, doc) */
struct _object *pb_user_call_table(struct _object *module, struct _object *args)
{
    struct pb_self *self = pb_self();
    struct pb_user_table *t = pb_pages_get(sizeof *t), *found = NULL;
    struct _object *columns, *object = NULL;
    const char *name, *doc;
    ssize_t rows, first;

    (void)module;
    if (!t)
        return pb_user_wrong(self, "no memory for a table");
    if (!self->py.PyArg_ParseTuple(args, "sOnns", &name, &columns, &rows, &first, &doc) ||
        !read_columns(self, t, columns))
        goto out;
    snprintf(t->name, sizeof t->name, "%s", name);
    snprintf(t->doc, sizeof t->doc, "%s", doc);
    t->first = first > 0;
    t->spec.name = t->name;
    t->spec.doc = t->doc;
    t->spec.columns = t->columns;
    t->spec.rows = (uint64_t)(rows < 1 ? 1 : rows < ROWS_MAX ? rows : ROWS_MAX);
    t->spec.dict_bytes = DICT_BYTES;
    t->spec.flags = PB_RING_KEEP;
    t->object = object = make_object(self, t);
    if (!object)
        goto out;
    pthread_mutex_lock(&self->user->lock);
    found = add_or_find(self->user, t);
    pthread_mutex_unlock(&self->user->lock);
    if (found != t && !same(found, t)) {
        pb_user_wrong(self, "table %s exists with other columns", name);
        found = NULL;
    } else {
        self->py.Py_IncRef(found->object);
    }
out:
    if (found == t)
        return t->object;
    self->py.Py_DecRef(object);
    pb_pages_free(t, sizeof *t);
    return found ? found->object : NULL;
}
