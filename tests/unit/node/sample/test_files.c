/* Files of the kernel as text: processes, control groups, numbers. */
#include "pb_test.h"

#include <math.h>
#include <unistd.h>

#include "node/sample/cgroup.h"
#include "node/gpu/nvml.h"
#include "node/sample/procfile.h"

static void test_stat(void **state)
{
    static const char text[] =
        "4242 (a) b (c) S 1 4242 4242 0 -1 4194304 11 22 33 44 500 60 7 8 20 0 23 0 987654 "
        "1048576 250 18446744073709551615 1 1 0 0 0 0 0 16781312 134235138 0 0 0 17 0 0 0\n";
    struct pb_sample_stat s;

    (void)state;
    assert_true(pb_sample_parse_stat(&s, text));
    assert_int_equal(s.state, 'S');
    assert_int_equal(s.minor_faults, 11);
    assert_int_equal(s.major_faults, 33);
    assert_int_equal(s.utime, 500);
    assert_int_equal(s.stime, 60);
    assert_int_equal(s.threads, 23);
    assert_int_equal(s.start, 987654);
    assert_int_equal(s.vms, 1048576);
    assert_int_equal(s.rss, 250 * (uint64_t)sysconf(_SC_PAGESIZE));
}

static void test_stat_of_nonsense(void **state)
{
    static const char *const texts[] = {"", "4242", "4242 (a", "4242 (a)", "4242 (a) ",
                                        "4242 (a) S", "4242 (a) S 1 2 3", "1 (a) S x x x x x x x"};
    struct pb_sample_stat s;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_false(pb_sample_parse_stat(&s, texts[i]));
}

static void test_numbers(void **state)
{
    const char *at = "  17 18.25 99999999999999999999";
    uint64_t v = 0;
    double d = 0;

    (void)state;
    assert_true(pb_scan_u64(&at, &v));
    assert_int_equal(v, 17);
    assert_true(pb_scan_decimal(&at, &d));
    assert_true(d > 18.2499 && d < 18.2501);
    assert_false(pb_scan_u64(&at, &v)); /* too large for any counter */
    at = "max";
    assert_false(pb_scan_u64(&at, &v));
    at = "one two\nthree";
    assert_false(pb_scan_skip(&at, 3)); /* never over the end of a line */
    assert_true(pb_scan_skip(&at, 2));
}

static void test_keys(void **state)
{
    static const char text[] = "oom_kill_disable 0\noom_kill 3\n\nVmRSS:\t  12 kB\nlast=7";
    uint64_t v = 0;

    (void)state;
    assert_true(pb_scan_key(text, "oom_kill", &v));
    assert_int_equal(v, 3);
    assert_true(pb_scan_key(text, "VmRSS", &v));
    assert_int_equal(v, 12);
    assert_true(pb_scan_key(text, "last", &v));
    assert_int_equal(v, 7);
    assert_false(pb_scan_key(text, "Vm", &v));
    assert_false(pb_scan_key("", "x", &v));
}

static void test_rates(void **state)
{
    (void)state;
    assert_true(pb_sample_rate(30, 10, 10, 2) == 1.0);
    assert_true(isnan(pb_sample_rate(5, 10, 1, 1))); /* it ran backwards */
    assert_true(isnan(pb_sample_rate(5, 0, 1, 0)));  /* the first look */
}

static void test_cgroup_v2(void **state)
{
    static const char mounts[] =
        "25 30 0:22 / /sys rw - sysfs sysfs rw\n"
        "34 25 0:29 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
    struct pb_cgroup_mounts m;
    struct pb_cgroup g;

    (void)state;
    assert_true(pb_cgroup_mounts_parse(&m, mounts));
    assert_string_equal(m.tree[PB_CGROUP_V2].at, "/sys/fs/cgroup");
    assert_true(pb_cgroup_parse(&g, &m, "0::/user.slice/job\n"));
    assert_string_equal(g.name, "/user.slice/job");
    assert_string_equal(g.memory, "/sys/fs/cgroup/user.slice/job");
    assert_string_equal(g.cpu, "/sys/fs/cgroup/user.slice/job");
    assert_true(g.memory_v2 && g.cpu_v2);
    assert_true(pb_cgroup_parse(&g, &m, "0::/\n"));
    assert_string_equal(g.memory, "/sys/fs/cgroup");
    /* Outside of what this namespace sees. */
    assert_false(pb_cgroup_parse(&g, &m, "0::/../other\n"));
    assert_false(pb_cgroup_parse(&g, &m, "nonsense\n0:\n"));
}

static void test_cgroup_v1(void **state)
{
    static const char mounts[] =
        "40 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
        "41 30 0:31 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "42 30 0:32 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "43 30 0:33 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n";
    static const char groups[] = "5:cpuset:/\n4:memory:/docker/abc/job\n3:cpu,cpuacct:/x\n0::/y\n";
    struct pb_cgroup_mounts m;
    struct pb_cgroup g;

    (void)state;
    assert_true(pb_cgroup_mounts_parse(&m, mounts));
    assert_true(pb_cgroup_parse(&g, &m, groups));
    assert_string_equal(g.memory, "/sys/fs/cgroup/memory/job");
    assert_string_equal(g.cpu, "/sys/fs/cgroup/cpu,cpuacct/x");
    assert_false(g.memory_v2 || g.cpu_v2);
    /* A group that only begins like the one that is mounted. */
    assert_true(pb_cgroup_parse(&g, &m, "4:memory:/docker/abcd\n3:cpu,cpuacct:/x\n"));
    assert_string_equal(g.memory, "");
}

static void test_fields(void **state)
{
    struct pb_nvml_field f = {.type = 1, .value.u = 7};
    double v = 0;

    (void)state;
    assert_true(pb_nvml_field_number(&f, &v) && v == 7);
    f = (struct pb_nvml_field){.type = 3, .value.ull = 1ull << 40};
    assert_true(pb_nvml_field_number(&f, &v) && v == 1099511627776.0);
    f.error = 3;
    assert_false(pb_nvml_field_number(&f, &v));
    f = (struct pb_nvml_field){.type = 99};
    assert_false(pb_nvml_field_number(&f, &v));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stat),    cmocka_unit_test(test_stat_of_nonsense),
        cmocka_unit_test(test_numbers), cmocka_unit_test(test_keys),
        cmocka_unit_test(test_rates),   cmocka_unit_test(test_cgroup_v2),
        cmocka_unit_test(test_cgroup_v1), cmocka_unit_test(test_fields),
    };

    return RUN_TESTS(tests);
}
