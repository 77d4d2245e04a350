#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/collectors/collect.h"
#include "agent/collectors/native/cuda_memory.h"
#include "agent/collectors/native/heap.h"
#include "base/clock.h"
#include "schema/python_memory.h"
#include "schema/table.h"

static unsigned interval_ms(const struct pb_self *self);
static void tick(struct pb_self *self, uint64_t now);
static int enter(struct pb_self *self, struct pb_err *err);
static void poll(struct pb_self *self, uint64_t now);
static void leave(struct pb_self *self);
static void forked(struct pb_self *self);

/*
 * What only the interpreter knows, as somebody with the GIL last saw it. Rows are made by the
 * agent's thread, which never waits for the GIL: what has not been seen since the last row is NULL.
 */
struct figures {
    uint64_t seen_ns;
    bool has_gens, has_blocks, has_cuda;
    int64_t gens[3], blocks;
    struct pb_cuda_memory cuda;
};

struct memory {
    pthread_mutex_t lock; /* for seen; held for copies only */
    struct figures seen;
    bool hooked; /* from here on: GIL */
    struct _object *callback, *callbacks, *get_count, *count_blocks;
    uint64_t began_ns;
    uint64_t blocks_due_ns, cuda_due_ns;
    _Atomic bool counting;
    _Atomic uint64_t gc_count, gc_ns, gc_max_ns; /* since the last row */
    uint64_t row_ns; /* agent's thread */
    struct pb_heap heap;
};

const struct pb_collector pb_collector_memory = {
    .name = "memory",
    .doc = PB_PYTHON_MEMORY_DOC,
    .on = PB_SET_MEMORY,
    .interval_ms = interval_ms,
    .tick = tick,
    .enter = enter,
    .poll = poll,
    .leave = leave,
    .forked = forked,
    .state_size = sizeof(struct memory),
};

PB_TABLE_COLUMNS(PB_PYTHON_MEMORY);
static const struct pb_ring_spec table = {
    PB_TABLE_SPEC(PB_PYTHON_MEMORY_NAME, PB_PYTHON_MEMORY_DOC),
    .rows = 4096,
};

/* A look that took t is not taken again for this many t: at most 0.1 % of the time goes there. */
#define RARELY 1000
#define TRIES 3
#define MB (1024.0 * 1024.0)

static struct memory *state_of(struct pb_self *self)
{
    return pb_collect_state(self, PB_COLLECTOR_ID_memory);
}

static unsigned interval_ms(const struct pb_self *self)
{
    return (unsigned)pb_self_setting(self, PB_SET_MEMORY_INTERVAL);
}

/* size, resident, shared: the first three numbers of /proc/self/statm, in pages. */
static bool read_statm(double mb[3])
{
    char text[128], *p = text;
    long page = sysconf(_SC_PAGESIZE);
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        return false;
    n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    for (int i = 0; i < 3; i++) {
        uint64_t pages = 0;

        if (*p < '0' || *p > '9')
            return false;
        for (; *p >= '0' && *p <= '9'; p++)
            pages = pages * 10 + (uint64_t)(*p - '0');
        while (*p == ' ')
            p++;
        mb[i] = (double)pages * (double)page / MB;
    }
    return true;
}

static void put_figures(union pb_cell *row, const struct figures *f)
{
    if (f->has_gens)
        for (int i = 0; i < 3; i++)
            row[AT_gc_gen0 + i].i = f->gens[i];
    if (f->has_blocks)
        row[AT_blocks].i = f->blocks;
    if (f->has_cuda) {
        row[AT_cuda_allocated_mb].d = f->cuda.allocated / MB;
        row[AT_cuda_reserved_mb].d = f->cuda.reserved / MB;
        row[AT_cuda_max_mb].d = f->cuda.peak / MB;
    }
}

static void put_gc(union pb_cell *row, struct memory *m)
{
    row[AT_gc_collections].i = (int64_t)atomic_exchange(&m->gc_count, 0);
    row[AT_gc_ms].d = (double)atomic_exchange(&m->gc_ns, 0) / 1e6;
    row[AT_gc_max_ms].d = (double)atomic_exchange(&m->gc_max_ns, 0) / 1e6;
}

static void put_heap(struct pb_self *self, union pb_cell *row, struct pb_heap *h, uint64_t now)
{
    double python, given;

    if (!h->arenas && h->tries < TRIES)
        pb_heap_find(h, &self->py);
    python = pb_heap_python(h);
    given = pb_heap_given(h, now);
    if (python >= 0)
        row[AT_python_mb].d = python / MB;
    if (given >= 0)
        row[AT_heap_mb].d = given / MB;
}

static void tick(struct pb_self *self, uint64_t now)
{
    struct memory *m = state_of(self);
    struct pb_ring *ring = pb_collect_ring(self, &table);
    union pb_cell row[NCOLUMNS];
    struct figures seen;
    double mb[3];

    if (!ring)
        return;
    for (int i = 0; i < NCOLUMNS; i++) {
        if (columns[i].type == PB_REAL)
            row[i].d = pb_null_real();
        else
            row[i].i = PB_NULL_INT;
    }
    row[AT_timestamp].i = pb_clock_wall_ns();
    if (read_statm(mb)) {
        row[AT_vms_mb].d = mb[0];
        row[AT_rss_mb].d = mb[1];
        row[AT_shared_mb].d = mb[2];
    }
    put_heap(self, row, &m->heap, now);
    pthread_mutex_lock(&m->lock);
    seen = m->seen;
    m->seen = (struct figures){0};
    pthread_mutex_unlock(&m->lock);
    if (seen.seen_ns > m->row_ns)
        put_figures(row, &seen);
    if (m->counting)
        put_gc(row, m);
    m->row_ns = now;
    pb_ring_append(ring, row);
}

static void see_generations(const struct pb_py *py, struct memory *m, struct figures *f)
{
    struct _object *counts = m->get_count ? py->PyObject_CallFunction(m->get_count, NULL) : NULL;

    if (counts)
        f->has_gens = py->PyArg_ParseTuple(counts, "LLL", &f->gens[0], &f->gens[1], &f->gens[2]);
    py->PyErr_Clear();
    py->Py_DecRef(counts);
}

/* Counting goes through all pools: the larger the heap, the longer it takes and the rarer it is. */
static void see_blocks(const struct pb_py *py, struct memory *m, struct figures *f, uint64_t now)
{
    struct _object *count;

    if (!m->count_blocks || now < m->blocks_due_ns)
        return;
    count = py->PyObject_CallFunction(m->count_blocks, NULL);
    if (count) {
        f->blocks = py->PyLong_AsLongLong(count);
        f->has_blocks = !py->PyErr_Occurred();
    }
    py->PyErr_Clear();
    py->Py_DecRef(count);
    m->blocks_due_ns = now + (pb_clock_ns() - now) * RARELY;
}

/* GIL held, twice a collection: ("start" | "stop", info). */
static struct _object *on_gc(struct _object *module, struct _object *args)
{
    struct pb_self *self = pb_self();
    struct memory *m = state_of(self);
    const struct pb_py *py = &self->py;
    uint64_t now, took;
    const char *phase;

    (void)module;
    if (self->collect->on && py->PyTuple_Size(args) > 0 &&
        (phase = py->PyUnicode_AsUTF8AndSize(py->PyTuple_GetItem(args, 0), NULL))) {
        now = pb_clock_ns();
        if (strcmp(phase, "start") == 0) {
            m->began_ns = now;
        } else if (m->began_ns) {
            took = now - m->began_ns;
            m->began_ns = 0;
            m->gc_count++;
            m->gc_ns += took;
            if (took > m->gc_max_ns)
                m->gc_max_ns = took;
            pb_collect_check_imports(self, now);
        }
    }
    py->Py_IncRef(py->none);
    return py->none;
}

/* Python keeps a pointer to it. */
static struct pb_py_method method = {"probing_gc", on_gc, PB_PY_VARARGS, NULL};

static struct _object *attribute(struct pb_self *self, const char *module, const char *name)
{
    struct _object *m = pb_collect_module(self, module);
    struct _object *value = m ? self->py.PyObject_GetAttrString(m, name) : NULL;

    self->py.PyErr_Clear();
    self->py.Py_DecRef(m);
    return value;
}

/* Whatever of it can be had now; the rest when somebody has imported gc. */
static void hook(struct pb_self *self, struct memory *m)
{
    const struct pb_py *py = &self->py;

    if (!m->count_blocks)
        m->count_blocks = attribute(self, "sys", "getallocatedblocks");
    if (!m->get_count)
        m->get_count = attribute(self, "gc", "get_count");
    if (!m->callbacks)
        m->callbacks = attribute(self, "gc", "callbacks");
    if (!m->callback)
        m->callback = py->PyCFunction_NewEx(&method, NULL, NULL);
    m->hooked = m->callbacks && m->callback && py->PyList_Append(m->callbacks, m->callback) == 0;
    py->PyErr_Clear();
    m->began_ns = 0;
    m->counting = m->hooked;
}

static void poll(struct pb_self *self, uint64_t now)
{
    struct memory *m = state_of(self);
    struct figures f;
    uint64_t began;

    pthread_mutex_lock(&m->lock);
    f = m->seen;
    pthread_mutex_unlock(&m->lock);
    if (!m->hooked)
        hook(self, m);
    f.seen_ns = now;
    see_generations(&self->py, m, &f);
    see_blocks(&self->py, m, &f, now);
    began = pb_clock_ns();
    if (began >= m->cuda_due_ns) {
        f.has_cuda = pb_cuda_memory(&self->py, &f.cuda);
        m->cuda_due_ns = began + (pb_clock_ns() - began) * RARELY;
    }
    pthread_mutex_lock(&m->lock);
    m->seen = f;
    pthread_mutex_unlock(&m->lock);
}

static int enter(struct pb_self *self, struct pb_err *err)
{
    struct memory *m = state_of(self);

    (void)err;
    if (!m->hooked)
        hook(self, m);
    m->counting = m->hooked;
    return 0; /* without the hook there are still the figures of the kernel */
}

static void leave(struct pb_self *self)
{
    struct memory *m = state_of(self);
    const struct pb_py *py = &self->py;
    ssize_t n = m->hooked ? py->PyList_Size(m->callbacks) : 0;

    m->counting = false;
    while (n-- > 0)
        if (py->PyList_GetItem(m->callbacks, n) == m->callback)
            py->PySequence_DelItem(m->callbacks, n);
    py->PyErr_Clear();
    py->Py_DecRef(m->callbacks);
    py->Py_DecRef(m->callback);
    py->Py_DecRef(m->get_count);
    py->Py_DecRef(m->count_blocks);
    m->callbacks = m->callback = m->get_count = m->count_blocks = NULL;
    m->hooked = false;
}

static void forked(struct pb_self *self)
{
    struct memory *m = state_of(self);

    pthread_mutex_init(&m->lock, NULL);
    m->seen = (struct figures){0};
    m->counting = false;
    m->gc_count = m->gc_ns = m->gc_max_ns = 0;
    m->row_ns = 0;
}
