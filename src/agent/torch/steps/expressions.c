#include "agent/torch/steps/expressions.h"

#include <stdio.h>
#include <string.h>

#include "agent/torch/torch.h"

#define EXPRESSION_INPUT 258 /* Py_eval_input, in all versions */
/* Share of torch.budget that an expression may take. */
#define SHARE 0.3
/* Evaluations in a row that may take too long. */
#define SLOW_MAX 16

static const enum pb_setting_id ids[PB_TORCH_EXPRESSIONS] = {PB_SET_TORCH_STEP, PB_SET_TORCH_EPOCH};

/* Takes the pending exception: the first line of its text. */
static void consume_error(const struct pb_py *py, char *ret, size_t cap)
{
    struct _object *type = NULL, *value = NULL, *trace = NULL, *text = NULL, *first = NULL;
    const char *s = NULL;

    if (py->PyErr_Fetch)
        py->PyErr_Fetch(&type, &value, &trace);
    py->PyErr_Clear();
    /* A SyntaxError has its text and position in a tuple. */
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

static void give_up(struct pb_torch *t, struct pb_torch_expression *n, enum pb_setting_id id,
                    const char *why)
{
    n->works = false;
    snprintf(t->expressions.problem, sizeof t->expressions.problem, "%s: %.70s",
             pb_setting_list[id].name, why);
    t->expressions.problem_is_new = true;
}

static void compile(struct pb_torch *t, struct pb_torch_expression *n, enum pb_setting_id id)
{
    const struct pb_py *py = &t->self->py;
    struct _object *old = n->code;
    char why[80];

    n->slow = 0;
    n->code = n->text[0] ? py->Py_CompileString(n->text, "<torch.step>", EXPRESSION_INPUT) : NULL;
    n->works = n->code != NULL;
    if (n->text[0] && !n->code) {
        consume_error(py, why, sizeof why);
        give_up(t, n, id, why);
    } else if (strncmp(t->expressions.problem, pb_setting_list[id].name,
                       strlen(pb_setting_list[id].name)) == 0) {
        t->expressions.problem[0] = '\0';
        t->expressions.problem_is_new = true;
    }
    py->PyErr_Clear();
    py->Py_DecRef(old);
}

void pb_torch_expressions_poll(struct pb_torch *t)
{
    for (int i = 0; i < PB_TORCH_EXPRESSIONS; i++) {
        struct pb_torch_expression *n = &t->expressions.list[i];
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

    wanted = pb_py_attribute(py, "builtins", "int");
    yes = type && wanted && py->PyType_IsSubtype(type, wanted);
    py->Py_DecRef(wanted);
    py->Py_DecRef(type);
    return yes;
}

/* Anything may happen in it: the collector may be off afterwards. */
static bool evaluate(struct pb_torch *t, struct pb_torch_expression *n, enum pb_setting_id id,
                     int64_t *ret)
{
    const struct pb_py *py = &t->self->py;
    struct _object *names = pb_py_attribute(py, "__main__", "__dict__");
    struct _object *code = n->code, *value;
    bool good = false;
    char why[80];

    py->Py_IncRef(code);
    value = names ? py->PyEval_EvalCode(code, names, names) : NULL;
    if (!value && !t->self->hand_back(t->self)) {
        consume_error(py, why, sizeof why);
        give_up(t, n, id, why);
    } else if (value && !is_int(py, value)) {
        give_up(t, n, id, "gives no whole number");
    } else if (value) {
        *ret = py->PyLong_AsLongLong(value);
        good = !py->PyErr_Occurred();
    }
    py->PyErr_Clear();
    py->Py_DecRef(value);
    py->Py_DecRef(code);
    py->Py_DecRef(names);
    return good && t->on;
}

static bool is_slow(const struct pb_torch *t, struct pb_torch_expression *n, uint64_t cost_ns)
{
    double budget = (double)pb_self_setting(t->self, PB_SET_TORCH_BUDGET) / 1000.0 / 100.0;

    if (!t->steps.took_ns || (double)cost_ns <= SHARE * budget * (double)t->steps.took_ns)
        n->slow = 0;
    else
        n->slow++;
    return n->slow > SLOW_MAX;
}

bool pb_torch_expression_value(struct pb_torch *t, enum pb_torch_expression_id which, int64_t *ret)
{
    struct pb_torch_expression *n = &t->expressions.list[which];
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

void pb_torch_expressions_leave(struct pb_torch *t)
{
    for (int i = 0; i < PB_TORCH_EXPRESSIONS; i++) {
        struct _object *code = t->expressions.list[i].code;

        t->expressions.list[i] = (struct pb_torch_expression){0};
        t->self->py.Py_DecRef(code);
    }
}
