/* Names that a person can read, and no longer than asked. */
#include <stdio.h>
#include <string.h>

#include "host/text/buf.h"
#include "pb_test.h"
#include "stack/native/native.h"

static void assert_name(const char *symbol, size_t max, const char *expected)
{
    struct pb_arena a = PB_ARENA_INIT;

    assert_string_equal(pb_demangle(&a, symbol, max), expected);
    pb_arena_finish(&a);
}

static void plain_names_stay(void **state)
{
    (void)state;
    assert_name("poll", 80, "poll");
    assert_name("memcpy@@GLIBC_2.14", 80, "memcpy");
    assert_name("_PyEval_EvalFrameDefault.cold", 80, "_PyEval_EvalFrameDefault.cold");
    assert_name("_Znot_a_mangled_name", 80, "_Znot_a_mangled_name");
    assert_name("a_name_that_is_too_long", 10, "a_name_…");
    assert_name("", 10, "");
}

static void parameters_and_return_types_go(void **state)
{
    (void)state;
    assert_name("_ZN4gloo9transport3tcp4Loop3runEv", 80, "gloo::transport::tcp::Loop::run");
    assert_name("_ZN2at6native5addmmERKNS_6TensorES3_", 80, "at::native::addmm");
    assert_name("_Z3addIiET_S0_S0_", 80, "add<int>"); /* int add<int>(int, int) */
    assert_name("_ZNK3foo3barEv", 80, "foo::bar");
    assert_name("_ZN12_GLOBAL__N_14ringEv", 80, "(anonymous namespace)::ring");
    assert_name("_ZN3foo3barEv.cold", 80, "foo::bar");
}

static void operators_keep_their_brackets(void **state)
{
    (void)state;
    assert_name("_ZN5torch8autograd4NodeclEv", 80, "torch::autograd::Node::operator()");
    assert_name("_ZN1AlsEi", 80, "A::operator<<");
    assert_name("_ZN1AltERKS_", 80, "A::operator<");
    assert_name("_ZN1AptEv", 80, "A::operator->");
    assert_name("_ZN1AcvbEv", 80, "A::operator bool");
    assert_name("_ZZ3foovENKUlvE_clEv", 80, "foo()::{lambda()#1}::operator()");
}

static void templates_shrink_from_the_inside(void **state)
{
    static const char symbol[] = "_Z1fISt6vectorISt4pairIiiESaIS2_EEEvT_";

    (void)state;
    assert_name(symbol, 80,
                "f<std::vector<std::pair<int, int>, std::allocator<std::pair<int, int> > > >");
    assert_name(symbol, 70, "f<std::vector<std::pair<int, int>, std::allocator<std::pair<…> > > >");
    assert_name(symbol, 60, "f<std::vector<std::pair<…>, std::allocator<…> > >");
    assert_name(symbol, 30, "f<std::vector<…> >");
    assert_name(symbol, 8, "f<…>");
    assert_name(symbol, 4, "f…");
}

/* A lambda is named by the function around it, parameters and all. */
static void local_functions_keep_their_place(void **state)
{
    static const char symbol[] = "_ZZN12_GLOBAL__N_13runISt6vectorIiSaIiEEEEvT_iENKUliE_clEi";

    (void)state;
    assert_name(symbol, 200,
                "(anonymous namespace)::run<std::vector<int, std::allocator<int> > >"
                "(std::vector<int, std::allocator<int> >, int)::{lambda(int)#1}::operator()");
    assert_name(symbol, 80, "(anonymous namespace)::run<…>(…)::{lambda(…)#1}::operator()");
}

static void rust_loses_its_hash(void **state)
{
    (void)state;
    assert_name("_ZN4core3fmt5write17h0123456789abcdefE", 80, "core::fmt::write");
}

/* Each part is twice the last: the whole name would have 2^60 words. */
static void a_name_that_grows_without_end_stays_as_it_is(void **state)
{
    struct pb_buf name = PB_BUF_INIT;
    struct pb_arena a = PB_ARENA_INIT;
    char *text;

    (void)state;
    pb_buf_puts(&name, "_Z1f1AIiiE");
    for (int i = 0; i < 60; i++) {
        char last[8];

        if (i < 36)
            snprintf(last, sizeof last, "S%c_", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i]);
        else
            snprintf(last, sizeof last, "S1%c_", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i - 36]);
        pb_buf_printf(&name, "S_I%s%sE", last, last);
    }
    text = pb_demangle(&a, name.data, 40);
    assert_int_equal(strncmp(text, "_Z1f1AIiiE", 10), 0);
    assert_true(strlen(text) <= 40);
    pb_arena_finish(&a);
    pb_buf_finish(&name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_names_stay),
        cmocka_unit_test(parameters_and_return_types_go),
        cmocka_unit_test(operators_keep_their_brackets),
        cmocka_unit_test(templates_shrink_from_the_inside),
        cmocka_unit_test(local_functions_keep_their_place),
        cmocka_unit_test(rust_loses_its_hash),
        cmocka_unit_test(a_name_that_grows_without_end_stays_as_it_is),
    };

    return RUN_TESTS(tests);
}
