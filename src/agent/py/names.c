#include "agent/py/names.h"

#include <string.h>

#include "base/hash.h"

#define TRIES 8

/* The table once more: the two functions that take the place of Python's get no argument for it. */
static struct pb_names *table;

static uint32_t hash_of(const char *s)
{
    uint32_t h = (uint32_t)pb_hash_text(PB_HASH_SEED, s);

    return h ? h : 1;
}

/* NULL with an exception, or NULL without: there is no room. */
static __attribute__((noinline)) struct _object *make(struct pb_names *t, struct pb_name *w,
                                                      uint32_t hash, const char *s)
{
    struct _object *object = t->py->PyUnicode_InternFromString(s);
    const char *text = object ? t->py->PyUnicode_AsUTF8AndSize(object, NULL) : NULL;

    if (!text) {
        t->py->Py_DecRef(object);
        return NULL;
    }
    *w = (struct pb_name){hash, object, text};
    t->n++;
    return object;
}

static struct _object *word_of(struct pb_names *t, const char *s)
{
    uint32_t hash = hash_of(s);

    for (uint32_t i = 0; i < TRIES; i++) {
        struct pb_name *w = &t->list[(hash + i) & (PB_NAMES - 1)];

        if (!w->object)
            return t->n < PB_NAMES / 2 ? make(t, w, hash, s) : NULL;
        if (w->hash == hash && strcmp(w->text, s) == 0)
            return w->object;
    }
    return NULL;
}

static struct _object *get_attribute(struct _object *object, const char *name)
{
    struct pb_names *t = table;
    struct _object *word = word_of(t, name);

    if (word)
        return t->py->PyObject_GetAttr(object, word);
    t->py->PyErr_Clear();
    return t->get_attribute(object, name);
}

static struct _object *get_item(struct _object *dict, const char *name)
{
    struct pb_names *t = table;
    struct _object *word = word_of(t, name);

    if (word)
        return t->py->PyDict_GetItem(dict, word);
    t->py->PyErr_Clear();
    return t->get_item(dict, name);
}

void pb_names_use(struct pb_names *w, struct pb_py *py)
{
    if (py->free_threaded)
        return; /* nothing would keep two threads apart */
    w->py = py;
    table = w;
    w->get_attribute = py->PyObject_GetAttrString;
    w->get_item = py->PyDict_GetItemString;
    py->PyObject_GetAttrString = get_attribute;
    py->PyDict_GetItemString = get_item;
}
