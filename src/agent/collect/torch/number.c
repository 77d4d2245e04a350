/*
 * Numbers of steps and epochs by an expression of the user's (torch.step, torch.epoch), evaluated
 * in __main__ at the end of each step. It is compiled once. One that fails, gives no whole number
 * or takes more than its part of torch.budget is given up, and the status line says why.
 */
#include <stdio.h>
#include <string.h>

#include "agent/collect/torch/torch.h"
#include "base/clock.h"

#define EXPRESSION_INPUT 258 /* Py_eval_input, in all versions */
#define SHARE 0.3
/* So many in a row that take too long. */
#define SLOW_MAX 16

static const enum pb_setting_id ids[PB_TORCH_NUMBERS] = {PB_SET_TORCH_STEP, PB_SET_TORCH_EPOCH};

/* The first line of the exception that is pending, which is none afterwards. */
static void take_error(const struct pb_py *py, char *ret, size_t cap)
{
    struct _object *type = NULL, *value = NULL, *trace = NULL, *text = NULL, *first = NULL;
    const char *s = NULL;

    if (py->PyErr_Fetch)
        py->PyErr_Fetch(&type, &value, &trace);
    py->PyErr_Clear();
    /* What the compiler has to say of a text comes with the place, in a tuple. */
    if (value && py->PyTuple_Size(value) > 0)
        first = py->PyTuple_GetItem(value, 0);
    py->PyErr_Clear();
    first = first ? first : value ? value : type;
    text = first ? py->PyObject_Str(first) : NULL;
    s = text ? py->PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    snprintf(ret, cap, "%.*s", s ? (int)strcspn(s, "\n") : 6, s ? s : "failed");
    py->PyErr_Clear();
    py->Py_DecRef(text);
    py->Py_DecRef(trace);
    py->Py_DecRef(value);
    py->Py_DecRef(type);
}

static void give_up(struct pb_torch *t, struct pb_torch_number *n, enum pb_setting_id id,
                    const char *why)
{
    n->works = false;
    snprintf(t->number_note, sizeof t->number_note, "%s: %.70s", pb_setting_list[id].name, why);
    t->number_note_new = true;
}

static void compile(struct pb_torch *t, struct pb_torch_number *n, enum pb_setting_id id)
{
    const struct pb_py *py = &t->self->py;
    struct _object *old = n->code;
    char why[80];

    n->slow = 0;
    n->code = n->text[0] ? py->Py_CompileString(n->text, "<torch.step>", EXPRESSION_INPUT) : NULL;
    n->works = n->code != NULL;
    if (n->text[0] && !n->code) {
        take_error(py, why, sizeof why);
        give_up(t, n, id, why);
    } else if (strncmp(t->number_note, pb_setting_list[id].name,
                       strlen(pb_setting_list[id].name)) == 0) {
        t->number_note[0] = '\0';
        t->number_note_new = true;
    }
    py->PyErr_Clear();
    py->Py_DecRef(old);
}

void pb_torch_numbers_look(struct pb_torch *t)
{
    for (int i = 0; i < PB_TORCH_NUMBERS; i++) {
        struct pb_torch_number *n = &t->numbers[i];
        char text[PB_SETTING_VALUE_MAX];

        pthread_mutex_lock(&t->self->lock);
        memcpy(text, pb_settings_text(&t->self->settings, ids[i]), sizeof text);
        pthread_mutex_unlock(&t->self->lock);
        if (strcmp(text, n->text) == 0)
            continue;
        memcpy(n->text, text, sizeof text);
        compile(t, n, ids[i]);
    }
}

static bool is_int(const struct pb_py *py, struct _object *value)
{
    struct _object *type = py->PyObject_Type(value), *wanted;
    bool yes;

    wanted = pb_torch_attribute(py, "builtins", "int");
    yes = type && wanted && py->PyType_IsSubtype(type, wanted);
    py->Py_DecRef(wanted);
    py->Py_DecRef(type);
    return yes;
}

/* Anything may happen in it: the collector may be off afterwards. */
static bool evaluate(struct pb_torch *t, struct pb_torch_number *n, enum pb_setting_id id,
                     int64_t *ret)
{
    const struct pb_py *py = &t->self->py;
    struct _object *names = pb_torch_attribute(py, "__main__", "__dict__");
    struct _object *code = n->code, *value;
    bool good = false;
    char why[80];

    py->Py_IncRef(code);
    value = names ? py->PyEval_EvalCode(code, names, names) : NULL;
    if (!value) {
        take_error(py, why, sizeof why);
        give_up(t, n, id, why);
    } else if (!is_int(py, value)) {
        give_up(t, n, id, "gives no whole number");
    } else {
        *ret = py->PyLong_AsLongLong(value);
        good = !py->PyErr_Occurred();
    }
    py->PyErr_Clear();
    py->Py_DecRef(value);
    py->Py_DecRef(code);
    py->Py_DecRef(names);
    return good && t->on;
}

static bool is_slow(const struct pb_torch *t, struct pb_torch_number *n, uint64_t cost_ns)
{
    double budget = (double)pb_self_setting(t->self, PB_SET_TORCH_BUDGET) / 1000.0 / 100.0;

    if (!t->took_ns || (double)cost_ns <= SHARE * budget * (double)t->took_ns)
        n->slow = 0;
    else
        n->slow++;
    return n->slow > SLOW_MAX;
}

bool pb_torch_number(struct pb_torch *t, enum pb_torch_number_id which, int64_t *ret)
{
    struct pb_torch_number *n = &t->numbers[which];
    uint64_t began;
    bool good;

    if (!n->works)
        return false;
    began = pb_clock_ns();
    good = evaluate(t, n, ids[which], ret);
    if (is_slow(t, n, pb_clock_ns() - began))
        give_up(t, n, ids[which], "takes too much of a step");
    return good;
}

void pb_torch_numbers_leave(struct pb_torch *t)
{
    for (int i = 0; i < PB_TORCH_NUMBERS; i++) {
        struct _object *code = t->numbers[i].code;

        t->numbers[i] = (struct pb_torch_number){0};
        t->self->py.Py_DecRef(code);
    }
}
