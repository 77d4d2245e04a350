#include <stdlib.h>
#include <string.h>

#include "host/alloc.h"
#include "node/sql/value.h"

static void *zeroed(size_t n, size_t size)
{
    void *p = pb_alloc_resize(NULL, n ? n * size : 1);

    memset(p, 0, n * size);
    return p;
}

static const char *name_of(int id)
{
    switch (id) {
#define X(name, number, text)                                                                      \
    case number:                                                                                   \
        return text;
        DUCK_TYPES(X)
#undef X
    }
    return NULL;
}

static int init_child(struct pb_value_type *t, size_t i, struct duck_type *child,
                      struct pb_err *err)
{
    int rc = pb_value_type_init(&t->children[i], child, err);

    pb_duck()->destroy_logical_type(&child);
    return rc;
}

static int init_struct(struct pb_value_type *t, struct duck_type *type, struct pb_err *err)
{
    const struct pb_duck *d = pb_duck();

    t->nchildren = t->nnames = d->struct_type_child_count(type);
    t->children = zeroed(t->nchildren, sizeof *t->children);
    t->names = zeroed(t->nchildren, sizeof *t->names);
    for (size_t i = 0; i < t->nchildren; i++) {
        t->names[i] = d->struct_type_child_name(type, i);
        if (init_child(t, i, d->struct_type_child_type(type, i), err) < 0)
            return -1;
    }
    return 0;
}

static int init_nested(struct pb_value_type *t, struct duck_type *type, struct pb_err *err)
{
    const struct pb_duck *d = pb_duck();

    t->nchildren = t->id == DUCK_MAP ? 2 : 1;
    t->children = zeroed(t->nchildren, sizeof *t->children);
    if (t->id == DUCK_LIST)
        return init_child(t, 0, d->list_type_child_type(type), err);
    if (t->id == DUCK_ARRAY) {
        t->size = d->array_type_array_size(type);
        return init_child(t, 0, d->array_type_child_type(type), err);
    }
    return init_child(t, 0, d->map_type_key_type(type), err) < 0
               ? -1
               : init_child(t, 1, d->map_type_value_type(type), err);
}

static void init_enum(struct pb_value_type *t, struct duck_type *type)
{
    const struct pb_duck *d = pb_duck();

    t->storage = d->enum_internal_type(type);
    t->nnames = d->enum_dictionary_size(type);
    t->names = zeroed(t->nnames, sizeof *t->names);
    for (size_t i = 0; i < t->nnames; i++)
        t->names[i] = d->enum_dictionary_value(type, i);
}

int pb_value_type_init(struct pb_value_type *t, struct duck_type *type, struct pb_err *err)
{
    const struct pb_duck *d = pb_duck();

    *t = (struct pb_value_type){.id = d->get_type_id(type)};
    switch (t->id) {
    case DUCK_LIST:
    case DUCK_ARRAY:
    case DUCK_MAP:
        return init_nested(t, type, err);
    case DUCK_STRUCT:
        return init_struct(t, type, err);
    case DUCK_DECIMAL:
        t->storage = d->decimal_internal_type(type);
        t->scale = d->decimal_scale(type);
        return 0;
    case DUCK_ENUM:
        init_enum(t, type);
        return 0;
    case DUCK_UNION:
    case DUCK_BIT:
    case DUCK_TIME_TZ:
        break;
    default:
        if (name_of(t->id))
            return 0;
    }
    return pb_err_set(err, PB_FAIL, "a value of type %s has no form here; cast it to VARCHAR",
                      name_of(t->id) ? name_of(t->id) : "that kind");
}

void pb_value_type_finish(struct pb_value_type *t)
{
    for (size_t i = 0; i < t->nnames; i++)
        pb_duck()->free(t->names[i]);
    for (size_t i = 0; i < t->nchildren; i++)
        pb_value_type_finish(&t->children[i]);
    free(t->names);
    free(t->children);
    *t = (struct pb_value_type){0};
}

void pb_value_type_name(const struct pb_value_type *t, struct pb_buf *b)
{
    switch (t->id) {
    case DUCK_LIST:
        pb_value_type_name(&t->children[0], b);
        pb_buf_puts(b, "[]");
        return;
    case DUCK_ARRAY:
        pb_value_type_name(&t->children[0], b);
        pb_buf_printf(b, "[%zu]", t->size);
        return;
    case DUCK_MAP:
        pb_buf_puts(b, "MAP(");
        pb_value_type_name(&t->children[0], b);
        pb_buf_puts(b, ", ");
        pb_value_type_name(&t->children[1], b);
        pb_buf_putc(b, ')');
        return;
    case DUCK_STRUCT:
        pb_buf_puts(b, "STRUCT(");
        for (size_t i = 0; i < t->nchildren; i++) {
            pb_buf_printf(b, "%s%s ", i ? ", " : "", t->names[i]);
            pb_value_type_name(&t->children[i], b);
        }
        pb_buf_putc(b, ')');
        return;
    default:
        pb_buf_puts(b, name_of(t->id));
    }
}
