/*
 * Values that come from a GPU: whoever puts the copy on a stream has let the GIL go, and finds the
 * collector as it was, gone, or come again. The driver and Python are made up.
 */
#include "pb_test.h"

#include <stdlib.h>
#include <string.h>

#include "agent/collectors/native/driver.c"
#include "agent/collectors/native/cuda.c"

static struct pb_py py;
static struct pb_cuda *cuda;
static bool held;                /* the GIL */
static int copies, records;
static int driver_says;
static void (*meanwhile)(void);  /* what another thread does */
static bool over;                /* all that was put on a stream */
static bool elsewhere;           /* this thread has no context */

static struct _object *call(struct _object *o, const char *format, ...)
{
    (void)format;
    assert_true(held);
    return o;
}

static long long number(struct _object *o)
{
    (void)o;
    return 7;
}

static void nothing(struct _object *o)
{
    (void)o;
}

static struct _object *no_error(void)
{
    return NULL;
}

static void no_clear(void)
{
}

static void *save(void)
{
    assert_true(held);
    held = false;
    return &held;
}

static void restore(void *state)
{
    assert_ptr_equal(state, &held);
    held = true;
    if (meanwhile)
        meanwhile();
}

static int copy(void *to, uint64_t from, size_t size, void *stream)
{
    assert_false(held);
    assert_ptr_equal(stream, (void *)7);
    memcpy(to, (const void *)(uintptr_t)from, size);
    copies++;
    return driver_says;
}

static int record(void *event, void *stream)
{
    (void)event;
    (void)stream;
    assert_false(held);
    records++;
    return driver_says;
}

static int create(void **event, unsigned flags)
{
    (void)flags;
    *event = cuda;
    return 0;
}

static int query(void *event)
{
    (void)event;
    return over ? 0 : 600;
}

static int context(void **ret)
{
    *ret = elsewhere ? NULL : cuda;
    return 0;
}

static struct _object *no_modules(void)
{
    return NULL;
}

static int capturing(void *stream, int *status)
{
    (void)stream;
    *status = 0;
    return 0;
}

static int mode(int *m)
{
    (void)m;
    return 0;
}

static int setup(void **state)
{
    static unsigned char pinned[PB_CUDA_SLOTS * VALUE_BYTES];

    (void)state;
    cuda = calloc(1, sizeof *cuda);
    *cuda = (struct pb_cuda){
        .state = 1, .context = cuda, .pinned = pinned, .get_device = (struct _object *)cuda,
        .get_stream = (struct _object *)cuda,
        .driver = {.event_create = create, .event_record = record, .event_query = query,
                   .context_current = context, .capturing = capturing, .capture_mode = mode,
                   .copy = copy}};
    py.PyObject_CallFunction = call;
    py.PyLong_AsLongLong = number;
    py.Py_DecRef = nothing;
    py.PyErr_Occurred = no_error;
    py.PyErr_Clear = no_clear;
    py.PyEval_SaveThread = save;
    py.PyEval_RestoreThread = restore;
    held = true;
    copies = records = driver_says = 0;
    meanwhile = NULL;
    over = elsewhere = false;
    py.PyImport_GetModuleDict = no_modules;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_true(held);
    free(cuda);
    return 0;
}

static int taken(void)
{
    int n = 0;

    for (int i = 0; i < PB_CUDA_SLOTS; i++)
        n += cuda->slots[i].taken;
    return n;
}

static struct pb_cuda_value fetch(float f, struct pb_cuda_value v)
{
    pb_cuda_fetch(cuda, &py, &v, (uint64_t)(uintptr_t)&f, PB_CUDA_F32);
    return v;
}

static void a_value_comes(void **state)
{
    struct pb_cuda_value v = fetch(2.5f, (struct pb_cuda_value){0});

    (void)state;
    assert_int_equal(v.state, PB_CUDA_COMING);
    assert_int_equal(taken(), 1);
    assert_false(pb_cuda_arrived(cuda, &v, false));
    v = fetch(3.5f, v); /* another one in its place */
    assert_int_equal(taken(), 1);
    over = true;
    assert_true(pb_cuda_arrived(cuda, &v, false));
    assert_true(v.state == PB_CUDA_KNOWN && v.v == 3.5);
    assert_int_equal(taken(), 0);
    assert_int_equal(copies, 2);
}

static void the_driver_refuses(void **state)
{
    struct pb_cuda_value v;

    (void)state;
    driver_says = 1;
    v = fetch(2.5f, (struct pb_cuda_value){0});
    assert_int_equal(v.state, PB_CUDA_NONE);
    assert_int_equal(taken(), 0);
    assert_int_equal(pb_cuda_span_begin(cuda, &py), -1);
}

static void leave(void)
{
    pb_cuda_leave(cuda);
}

static void the_collector_leaves_meanwhile(void **state)
{
    struct pb_cuda_value v;

    (void)state;
    meanwhile = leave;
    v = fetch(2.5f, (struct pb_cuda_value){0});
    assert_int_equal(v.state, PB_CUDA_NONE);
    assert_int_equal(taken(), 0);
}

static struct pb_cuda_value others;

static void other_fetches(void)
{
    meanwhile = NULL;
    others = fetch(9.0f, (struct pb_cuda_value){0});
}

static void two_threads_at_once(void **state)
{
    struct pb_cuda_value v;

    (void)state;
    meanwhile = other_fetches;
    v = fetch(2.5f, (struct pb_cuda_value){0});
    assert_true(v.state == PB_CUDA_COMING && others.state == PB_CUDA_COMING);
    assert_int_not_equal(v.slot, others.slot);
    over = true;
    assert_true(pb_cuda_arrived(cuda, &v, false) && pb_cuda_arrived(cuda, &others, false));
    assert_true(v.v == 2.5 && others.v == 9.0);
    assert_int_equal(taken(), 0);
}

static int others_span;

static void other_spans(void)
{
    meanwhile = NULL;
    others_span = pb_cuda_span_begin(cuda, &py);
}

static void spans(void **state)
{
    int span;

    (void)state;
    meanwhile = other_spans;
    span = pb_cuda_span_begin(cuda, &py);
    assert_int_equal(span, 0);
    assert_int_equal(others_span, 1);
    pb_cuda_span_end(cuda, &py, span);
    assert_true(cuda->spans[0].ended && !cuda->spans[1].ended);
    pb_cuda_spans_clear(cuda);
    pb_cuda_span_end(cuda, &py, 1); /* it is none any more */
    assert_false(cuda->spans[1].ended);
    assert_int_equal(records, 3);
}

/* A thread that does not work on the GPU asks first; it does not make the others wait. */
static void asked_elsewhere_first(void **state)
{
    (void)state;
    cuda->state = 0;
    cuda->found = true;
    cuda->context = NULL;
    elsewhere = true;
    assert_false(pb_cuda_ready(cuda, &py, 5));
    assert_int_equal(cuda->state, 0);
    elsewhere = false;
    assert_true(pb_cuda_ready(cuda, &py, 6));
    assert_ptr_equal(cuda->context, cuda);
    elsewhere = true;
    assert_false(pb_cuda_ready(cuda, &py, 7));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_value_comes, setup, teardown),
        cmocka_unit_test_setup_teardown(the_driver_refuses, setup, teardown),
        cmocka_unit_test_setup_teardown(the_collector_leaves_meanwhile, setup, teardown),
        cmocka_unit_test_setup_teardown(two_threads_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(spans, setup, teardown),
        cmocka_unit_test_setup_teardown(asked_elsewhere_first, setup, teardown),
    };

    return RUN_TESTS(tests);
}
