#include "agent/py/words.h"

#include <string.h>

#include "agent/self.h"

#define TRIES 8

static uint32_t hash_of(const char *s)
{
    uint32_t h = 2166136261u;

    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 16777619u;
    return h ? h : 1;
}

/* NULL and an exception, or NULL and none: there is no place for it. */
static __attribute__((noinline)) struct _object *make(struct pb_self *self, struct pb_word *w,
                                                      uint32_t hash, const char *s)
{
    struct _object *object = self->py.PyUnicode_InternFromString(s);
    const char *text = object ? self->py.PyUnicode_AsUTF8AndSize(object, NULL) : NULL;

    if (!text) {
        self->py.Py_DecRef(object);
        return NULL;
    }
    *w = (struct pb_word){hash, object, text};
    self->words.n++;
    return object;
}

static struct _object *word_of(struct pb_self *self, const char *s)
{
    uint32_t hash = hash_of(s);

    for (uint32_t i = 0; i < TRIES; i++) {
        struct pb_word *w = &self->words.list[(hash + i) & (PB_WORDS - 1)];

        if (!w->object)
            return self->words.n < PB_WORDS / 2 ? make(self, w, hash, s) : NULL;
        if (w->hash == hash && strcmp(w->text, s) == 0)
            return w->object;
    }
    return NULL;
}

static struct _object *get_attribute(struct _object *object, const char *name)
{
    struct pb_self *self = pb_self();
    struct _object *word = word_of(self, name);

    if (word)
        return self->py.PyObject_GetAttr(object, word);
    self->py.PyErr_Clear();
    return self->words.get_attribute(object, name);
}

static struct _object *get_item(struct _object *dict, const char *name)
{
    struct pb_self *self = pb_self();
    struct _object *word = word_of(self, name);

    if (word)
        return self->py.PyDict_GetItem(dict, word);
    self->py.PyErr_Clear();
    return self->words.get_item(dict, name);
}

void pb_words_use(struct pb_words *w, struct pb_py *py)
{
    if (py->free_threaded)
        return; /* nothing would keep two threads apart */
    w->get_attribute = py->PyObject_GetAttrString;
    w->get_item = py->PyDict_GetItemString;
    py->PyObject_GetAttrString = get_attribute;
    py->PyDict_GetItemString = get_item;
}
