/* Layouts out of _Py_DebugOffsets: measured builds give the right fields, damaged ones an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "stack/python/offsets.h"
#include "cpython/layout.h"

_Static_assert(sizeof offsets_313 == OFFSETS_313_SIZE - 24, "3.13");
_Static_assert(sizeof offsets_314 == OFFSETS_314_SIZE - 24, "3.14");
_Static_assert(sizeof offsets_314t == OFFSETS_314_SIZE - 24, "3.14t");
_Static_assert(sizeof offsets_315 == OFFSETS_315_SIZE - 24, "3.15");

static struct pb_py_layout read_layout(void (*fill)(uint8_t *), size_t size)
{
    uint8_t bytes[PB_DEBUG_OFFSETS_MAX] = {0};
    struct pb_py_layout l;
    struct pb_err err = {0};

    fill(bytes);
    if (pb_py_layout_from_offsets(&l, bytes, size, &err) < 0)
        fail_msg("%s", err.msg);
    return l;
}

/* What 3.13 and 3.14 have in common with a GIL, entry by entry. */
static void check_common(const struct pb_py_layout *l)
{
    const int found[] = {
        l->ts_next,
        l->ts_interp,
        l->ts_frame,
        l->ts_thread_id,
        l->ts_native_id,
        l->ts_chunk,
        l->ts_status,
        l->f_back,
        l->f_code,
        l->f_lasti,
        l->co_filename,
        l->co_name,
        l->co_qualname,
        l->co_linetable,
        l->co_firstlineno,
        l->co_argcount,
        l->co_varnames,
        l->ob_type,
        l->co_localspluskinds,
        l->ob_size,
        l->type_name,
        l->type_flags,
        l->list_items,
        l->dict_keys,
        l->dict_values,
        l->float_value,
        l->long_tag,
        l->long_digits,
        l->bytes_data,
        l->str_state,
        l->str_length,
        l->str_ascii_size,
        l->interp_threads_head,
    };
    const int expected[] = {
        8, 16,  72, 152, 160, 232, 32, 8,  0,  56, 112, 120, 128, 136, 68, 52,   96,
        8, 104, 16, 24,  168, 24,  32, 40, 16, 16, 24,  32,  32,  16,  40, 7344,
    };

    assert_memory_equal(found, expected, sizeof expected);
}

static void test_313(void **state)
{
    struct pb_py_layout l = read_layout(offsets_313_bytes, OFFSETS_313_SIZE);

    (void)state;
    check_common(&l);
    assert_int_equal(l.minor, 13);
    assert_int_equal(l.interp_id, 7272);
    assert_int_equal(l.interp_next, 7264);
    assert_int_equal(l.f_owner, 70);
    assert_false(l.free_threaded);
    assert_false(l.tagged);
    assert_int_equal(l.runtime_interp_head, 632);
    assert_int_equal(l.interp_threads_main, 7352);
    assert_int_equal(l.interp_modules, 7656);
    assert_int_equal(l.interp_gc_collecting, 7600);
    assert_int_equal(l.interp_gil, 16);
    assert_int_equal(l.gil_holder, 8);
    assert_int_equal(l.gil_locked, 16);
    assert_int_equal(l.gil_enabled, PB_NONE);
    assert_int_equal(l.ts_frame, 72);
    assert_int_equal(l.ts_id, 224);
    assert_int_equal(l.ts_state, 40);
    assert_int_equal(l.f_localsplus, 72);
    assert_int_equal(l.f_stackpointer, PB_NONE);
    assert_int_equal(l.f_tlbc_index, PB_NONE);
    assert_int_equal(l.owner_shim, 3);
    assert_int_equal(l.owner_shim2, PB_NONE);
    assert_int_equal(l.co_code, 200);
    assert_int_equal(l.co_flags, 48);
    assert_int_equal(l.tuple_items, 24);
    assert_int_equal(l.str_compact_size, 56);
    assert_int_equal(l.gen_frame, 72);
    assert_int_equal(l.dbg_support, PB_NONE);
    assert_int_equal(l.ts_cframe, PB_NONE);
}

static void test_314(void **state)
{
    struct pb_py_layout l = read_layout(offsets_314_bytes, OFFSETS_314_SIZE);

    (void)state;
    check_common(&l);
    assert_true(l.tagged);
    assert_int_equal(l.interp_id, 7280);
    assert_int_equal(l.interp_next, 7272);
    assert_int_equal(l.interp_modules, 7664);
    assert_int_equal(l.f_owner, 74);
    assert_int_equal(l.co_code, 208);
    assert_int_equal(l.interp_threads_main, 7360);
    assert_int_equal(l.interp_gc_collecting, 7600);
    assert_int_equal(l.ts_state, 44);
    assert_int_equal(l.f_localsplus, 80);
    assert_int_equal(l.f_stackpointer, 64);
    assert_int_equal(l.f_tlbc_index, PB_NONE);
    assert_int_equal(l.co_tlbc, PB_NONE);
    assert_int_equal(l.owner_shim2, 4);
    assert_int_equal(l.tuple_items, 32);
    assert_int_equal(l.managed_dict, -24);
    assert_int_equal(l.dbg_eval_breaker, 24);
    assert_int_equal(l.dbg_support, 304);
    assert_int_equal(l.dbg_enabled, 8052);
    assert_int_equal(l.dbg_path_size, 512);
}

static void test_315(void **state)
{
    struct pb_py_layout l = read_layout(offsets_315_bytes, OFFSETS_315_SIZE);

    (void)state;
    assert_true(l.tagged);
    assert_int_equal(l.minor, 15);
    assert_int_equal(l.runtime_interp_head, 888);
    assert_int_equal(l.interp_id, 7272);
    assert_int_equal(l.interp_modules, 7584);
    assert_int_equal(l.interp_gc_collecting, 7512);
    assert_int_equal(l.ts_frame, 72);
    assert_int_equal(l.ts_thread_id, 168);
    assert_int_equal(l.ts_native_id, 176);
    assert_int_equal(l.ts_chunk, 248);
    assert_int_equal(l.ts_id, 240);
    assert_int_equal(l.ts_state, 48);
    assert_int_equal(l.gil_locked, 16);
    assert_int_equal(l.f_owner, 74);
    assert_int_equal(l.f_localsplus, 80);
    assert_int_equal(l.co_linetable, 136);
    assert_int_equal(l.co_code, 208);
    assert_int_equal(l.dict_keys, 32);
    assert_int_equal(l.str_ascii_size, 40);
    assert_int_equal(l.dbg_support, 336);
    assert_int_equal(l.dbg_path, 4);
}

static void test_free_threaded(void **state)
{
    struct pb_py_layout l = read_layout(offsets_314t_bytes, OFFSETS_314_SIZE);

    (void)state;
    assert_true(l.free_threaded);
    assert_int_equal(l.ob_head, 32);
    assert_int_equal(l.ob_type, 24);
    assert_int_equal(l.gil_enabled, 0);
    assert_int_equal(l.gil_holder, 16);
    assert_int_equal(l.gil_locked, 24);
    assert_int_equal(l.f_tlbc_index, 72);
    assert_int_equal(l.co_tlbc, 224);
    assert_int_equal(l.co_flags, 64);
    assert_int_equal(l.co_nlocals, 96);
    assert_int_equal(l.type_basicsize, 48);
    assert_int_equal(l.dict_used, 32);
    assert_int_equal(l.set_table, 56);
    assert_int_equal(l.gen_frame, 88);
    assert_int_equal(l.managed_dict, -8);

    l = read_layout(offsets_313t_bytes, OFFSETS_313_SIZE);
    assert_int_equal(l.ob_head, 32);
    assert_int_equal(l.gil_holder, 16);
    assert_int_equal(l.gil_locked, 24);
    assert_int_equal(l.co_tlbc, PB_NONE);
}

/* Changes one word of a 3.14 and expects an error that contains `text`. */
static void refuse(size_t at, uint64_t value, size_t len, const char *text)
{
    uint8_t bytes[PB_DEBUG_OFFSETS_MAX] = {0};
    struct pb_py_layout l;
    struct pb_err err = {0};

    offsets_314_bytes(bytes);
    memcpy(bytes + at, &value, 8);
    assert_int_equal(pb_py_layout_from_offsets(&l, bytes, len, &err), -1);
    assert_int_equal(err.code, PB_FAIL);
    if (!strstr(err.msg, text))
        fail_msg("expected '%s' in '%s'", text, err.msg);
}

static void test_refusals(void **state)
{
    (void)state;
    refuse(0, 0, OFFSETS_314_SIZE, "no debug offsets");
    refuse(8, 0x031000f0, OFFSETS_314_SIZE, "Python 3.16");
    refuse(8, 0x040000f0, OFFSETS_314_SIZE, "Python 4.0");
    refuse(16, 0, OFFSETS_314_SIZE - 1, "cut off");
    refuse(16, 0, 10, "no debug offsets");
    refuse(344, 100000, OFFSETS_314_SIZE, "co_linetable is 100000");
    refuse(312, UINT64_MAX, OFFSETS_314_SIZE, "co_filename");
    refuse(144, UINT64_MAX, OFFSETS_314_SIZE, "gil_locked");
    refuse(128, 8000, OFFSETS_314_SIZE, "gil_");
    refuse(752, UINT64_MAX, OFFSETS_314_SIZE, "dbg_path_size");
    refuse(728, 1u << 30, OFFSETS_314_SIZE, "dbg_enabled");
    refuse(408, 0, OFFSETS_314_SIZE, "laid out otherwise");
    refuse(16, 1, OFFSETS_314_SIZE, "laid out otherwise");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_313),
        cmocka_unit_test(test_314),
        cmocka_unit_test(test_315),
        cmocka_unit_test(test_free_threaded),
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
