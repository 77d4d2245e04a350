#include "agent/collectors/alloc/walk.h"

#include <string.h>

#include "agent/core/self.h"
#include "base/ownmem.h"
#include "cpython/lines.h"
#include "base/utf8.h"

#define FRAMES_MAX 4096 /* of frames that are passed over, too: a chain that goes round ends */
#define TABLE_MAX (1u << 20)
#define TLBC_MAX (1 << 16) /* more threads than this do not get bytecode of their own */
#define STATE_COMPACT 8u
#define STATE_ASCII 16u
#define TAGS ((uintptr_t)3)

static bool get(const struct pb_walker *w, uintptr_t from, void *to, size_t len)
{
    if (w->careful)
        return pb_ownmem_read(to, from, len);
    memcpy(to, (const void *)from, len);
    return true;
}

static uintptr_t word(const struct pb_walker *w, uintptr_t from, int at)
{
    uintptr_t v = 0;

    return get(w, from + (uintptr_t)(intptr_t)at, &v, sizeof v) ? v : 0;
}

int pb_walk_init(struct pb_walker *w, const struct pb_py *py, struct pb_err *err)
{
    *w = (struct pb_walker){.py = py, .careful = true};
    return pb_py_own_layout(&w->layout, py, err);
}

/* The thread state of this thread; 0: Python does not know the thread. */
static uintptr_t thread_state(const struct pb_py *py)
{
    void *state = NULL;

    /* Before 3.12 what is current belongs to whoever holds the GIL. */
    if (py->api.current_is_of_thread)
        state = py->PyThreadState_GetUnchecked    ? py->PyThreadState_GetUnchecked()
                : py->_PyThreadState_UncheckedGet ? py->_PyThreadState_UncheckedGet()
                                                  : NULL;
    if (!state && py->PyGILState_GetThisThreadState)
        state = py->PyGILState_GetThisThreadState();
    return (uintptr_t)state;
}

static uintptr_t innermost(const struct pb_walker *w)
{
    const struct pb_py_layout *l = &w->layout;
    uintptr_t state = thread_state(w->py);
    uintptr_t at;

    if (!state)
        return 0;
    if (l->ts_cframe == PB_NONE)
        return word(w, state, l->ts_frame);
    at = word(w, state, l->ts_cframe);
    return at ? word(w, at, l->cframe_current) : 0;
}

/* Where the bytecode that the frame runs begins: free-threaded, each thread may have a copy. */
static uintptr_t bytecode(const struct pb_walker *w, uintptr_t frame, uintptr_t code)
{
    const struct pb_py_layout *l = &w->layout;
    uintptr_t table, copy;
    int32_t index = 0;

    if (l->free_threaded && l->co_tlbc != PB_NONE && l->f_tlbc_index != PB_NONE &&
        get(w, frame + (uintptr_t)l->f_tlbc_index, &index, sizeof index) && index > 0 &&
        index < TLBC_MAX && (table = word(w, code, l->co_tlbc)) &&
        (copy = word(w, table, 8 + 8 * index)))
        return copy;
    return code + (uintptr_t)l->co_code;
}

static void read_frame(const struct pb_walker *w, uintptr_t at, uintptr_t code,
                       struct pb_walk_frame *f)
{
    const struct pb_py_layout *l = &w->layout;
    int32_t index = -1;

    f->code = code;
    f->name = word(w, code, l->co_name);
    f->first = 0;
    get(w, code + (uintptr_t)l->co_firstlineno, &f->first, sizeof f->first);
    if (l->f_instr_is_pointer) {
        f->offset = (int64_t)(word(w, at, l->f_lasti) - bytecode(w, at, code));
    } else {
        get(w, at + (uintptr_t)l->f_lasti, &index, sizeof index);
        f->offset = (int64_t)index * l->lasti_scale;
    }
}

static bool is_shim(const struct pb_walker *w, uintptr_t at)
{
    const struct pb_py_layout *l = &w->layout;
    uint8_t owner = 0;

    return l->f_owner != PB_NONE && l->owner_shim != PB_NONE &&
           get(w, at + (uintptr_t)l->f_owner, &owner, 1) &&
           (owner == l->owner_shim || owner == l->owner_shim2);
}

size_t pb_walk(const struct pb_walker *w, struct pb_walk_frame *frames, size_t max, bool *ret_more)
{
    const struct pb_py_layout *l = &w->layout;
    uintptr_t at = innermost(w);
    size_t n = 0;

    *ret_more = false;
    for (int i = 0; at && i < FRAMES_MAX; i++, at = word(w, at, l->f_back)) {
        uintptr_t code = word(w, at, l->f_code);

        if (l->tagged)
            code &= ~TAGS;
        if (!code || is_shim(w, at))
            continue;
        *ret_more = n == max;
        if (*ret_more)
            break;
        read_frame(w, at, code, &frames[n++]);
    }
    return n;
}

/* The last characters of a str that fit: the end of a path says more than its beginning. */
static bool read_str(const struct pb_walker *w, uintptr_t str, struct pb_walk_text *ret)
{
    const struct pb_py_layout *l = &w->layout;
    uintptr_t length = word(w, str, l->str_length), flags = word(w, str, l->str_state), data;
    unsigned state = (unsigned)flags >> (l->free_threaded && (flags & 0xff) <= 3 ? 8 : 2);
    unsigned width = state & 7;
    size_t most = (sizeof ret->text - 1) / (width == 1 && state & STATE_ASCII ? 1 : 4), from;

    ret->len = 0;
    if (!str || (width != 1 && width != 2 && width != 4) || length > UINT32_MAX)
        return false;
    data = !(state & STATE_COMPACT)
               ? word(w, str, l->str_compact_size)
               : str + (uintptr_t)(state & STATE_ASCII ? l->str_ascii_size : l->str_compact_size);
    from = length > most ? length - most : 0;
    for (size_t i = from; i < length; i++) {
        uint32_t c = 0; /* little-endian, as both processors are */

        if (!get(w, data + i * width, &c, width))
            return false;
        if (c >= 0xdc80 && c <= 0xdcff)
            c = '?'; /* a byte that was not UTF-8 */
        ret->len += pb_utf8_put(ret->text + ret->len, pb_utf8_or_replacement(c));
    }
    ret->text[ret->len] = '\0';
    return true;
}

bool pb_walk_function(const struct pb_walker *w, const struct pb_walk_frame *f,
                      struct pb_walk_text *ret)
{
    const struct pb_py_layout *l = &w->layout;
    uintptr_t name = l->co_qualname == PB_NONE ? 0 : word(w, f->code, l->co_qualname);

    return read_str(w, name ? name : f->name, ret);
}

bool pb_walk_file(const struct pb_walker *w, const struct pb_walk_frame *f,
                  struct pb_walk_text *ret)
{
    return read_str(w, word(w, f->code, w->layout.co_filename), ret);
}

int pb_walk_line(const struct pb_walker *w, const struct pb_walk_frame *f)
{
    const struct pb_py_layout *l = &w->layout;
    uintptr_t table = word(w, f->code, l->co_linetable);
    uintptr_t len = table ? word(w, table, l->ob_size) : 0;
    uint8_t copy[1024];
    int line = 0;

    if (f->offset < 0 || f->offset > INT32_MAX || !len || len > TABLE_MAX)
        return f->first;
    if (!w->careful)
        line = pb_py_line((enum pb_py_lines)l->lines,
                          (const uint8_t *)table + l->bytes_data, len, f->first,
                          (uint32_t)f->offset);
    else if (len <= sizeof copy && get(w, table + (uintptr_t)l->bytes_data, copy, len))
        line = pb_py_line((enum pb_py_lines)l->lines, copy, len, f->first, (uint32_t)f->offset);
    return line ? line : f->first;
}

struct check {
    const struct pb_walker *w;
    bool good;
};

static bool is_frame(const struct pb_walker *w, const struct pb_walk_frame *f, const char *function,
                     int line)
{
    struct pb_walk_text name, file;

    return pb_walk_function(w, f, &name) && pb_walk_file(w, f, &file) &&
           strcmp(name.text, function) == 0 && strcmp(file.text, "<probing>") == 0 &&
           pb_walk_line(w, f) == line;
}

static const char check_lines[] = "def probing_check():\n"
                                  "\n"
                                  "    return (1,\n"
                                  "            call(here))\n"
                                  "\n"
                                  "probing_check()\n";

/* Called by those lines: the stack must be what they say. */
static struct _object *on_check(struct _object *module, struct _object *args)
{
    const struct pb_py *py;
    struct pb_walk_frame frames[2];
    long long here = 0;
    struct check *c;
    bool more;

    (void)module;
    py = &pb_self()->py;
    if (py->PyArg_ParseTuple(args, "L", &here) && here) {
        c = (struct check *)(intptr_t)here;
        c->good = pb_walk(c->w, frames, 2, &more) == 2 &&
                  is_frame(c->w, &frames[0], "probing_check", 4) &&
                  is_frame(c->w, &frames[1], "<module>", 6);
    }
    py->PyErr_Clear();
    py->Py_IncRef(py->none);
    return py->none;
}

/* Python keeps a pointer to it. */
static struct pb_py_method check_method = {"probing_check", on_check, PB_PY_VARARGS, NULL};

int pb_walk_check(struct pb_walker *w, struct pb_err *err)
{
    const struct pb_py *py = w->py;
    struct check c = {.w = w};
    struct _object *globals = py->PyDict_New();
    struct _object *code = py->Py_CompileString(check_lines, "<probing>", PB_PY_FILE_INPUT);
    struct _object *call = py->PyCFunction_NewEx(&check_method, NULL, NULL);
    struct _object *here = py->Py_BuildValue("L", (long long)(intptr_t)&c), *done = NULL;

    w->careful = true;
    if (globals && code && call && here &&
        py->PyDict_SetItemString(globals, "call", call) == 0 &&
        py->PyDict_SetItemString(globals, "here", here) == 0 &&
        py->PyDict_SetItemString(globals, "__builtins__", py->PyEval_GetBuiltins()) == 0)
        done = py->PyEval_EvalCode(code, globals, globals);
    py->PyErr_Clear();
    py->Py_DecRef(done);
    py->Py_DecRef(here);
    py->Py_DecRef(call);
    py->Py_DecRef(code);
    py->Py_DecRef(globals);
    w->careful = !c.good;
    return c.good ? 0
                  : pb_err_set(err, PB_FAIL, "frames of this Python %s are not laid out as known",
                               py->version);
}
