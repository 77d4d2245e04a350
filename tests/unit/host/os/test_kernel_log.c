#include "pb_test.h"

#include "host/os/kernel_log.h"

static void test_line_of_another_process(void **state)
{
    const char *line = "NVRM: Xid (PCI:0000:00:06): 43, pid=894, name=python3, channel 0x0000000a";

    (void)state;
    assert_true(pb_kernel_line_fits(line, 894));
    assert_false(pb_kernel_line_fits(line, 925));
    assert_false(pb_kernel_line_fits(line, 8));
}

static void test_line_that_names_none(void **state)
{
    (void)state;
    assert_true(pb_kernel_line_fits("NVRM: Xid (PCI:0000:00:06): 79, GPU is off the bus", 1));
    assert_true(pb_kernel_line_fits("NVRM: Xid (PCI:0000:00:06): 31, pid='<unknown>', name=", 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line_of_another_process),
        cmocka_unit_test(test_line_that_names_none),
    };

    return RUN_TESTS(tests);
}
