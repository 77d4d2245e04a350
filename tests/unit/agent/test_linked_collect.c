/* What a process says of itself (meta, status), its rings within a budget, and python.memory. */
#include "agent/agent_test.h"

#include <unistd.h>

#include "agent/collectors/internal.h"
#include "schema/python_memory.h"
#include "schema/table.h"

static const char *read_text(const char *name)
{
    static char text[8192];
    char path[128];
    ssize_t n;
    int fd;

    snprintf(path, sizeof path, "%s/%s", agent_folder, name);
    fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void test_meta(void **state)
{
    struct pb_self *self = agent_begin();
    char line[64];
    const char *text;

    (void)state;
    self->collect->world_size = self->collect->local_rank = -1;
    pb_collect_write_meta(self);
    text = read_text("meta");
    snprintf(line, sizeof line, "\npid=%d\n", (int)getpid());
    assert_non_null(strstr(text, line));
    assert_non_null(strstr(text, "\ncommand="));
    assert_null(strstr(text, "\nrank="));
    self->collect->meta_stale = false;
    pb_collect_set_rank(self, 3, 8, 1);
    assert_true(self->collect->meta_stale);
    pb_collect_write_meta(self);
    assert_non_null(strstr(read_text("meta"), "\nrank=3\nworld_size=8\nlocal_rank=1\n"));
    self->collect->meta_stale = false;
    pb_collect_set_rank(self, 3, 8, 1);
    assert_false(self->collect->meta_stale);
    agent_end(self);
}

static void test_status(void **state)
{
    struct pb_self *self = agent_begin();

    (void)state;
    self->collect->on = false; /* nobody to wake */
    pb_collect_set_state(self, PB_COLLECTOR_ID_memory, "on", "");
    pb_collect_set_state(self, PB_COLLECTOR_ID_torch, "off", "two\nlines");
    pb_collect_set_cost(self, PB_COLLECTOR_ID_torch, 1500000);
    pb_collect_write_status(self, "running");
    assert_ptr_equal(strstr(read_text("status"), "agent.state=running\n"), read_text("status"));
    assert_non_null(strstr(read_text("status"), "\ncollector.memory=on\n"));
    assert_non_null(strstr(read_text("status"), "\ncollector.torch=off: two lines\n"));
    assert_non_null(strstr(read_text("status"), "\nspent.torch=1.500\n"));
    agent_end(self);
}

PB_TABLE_COLUMNS(PB_PYTHON_MEMORY);
static const struct pb_ring_spec large = {
    PB_TABLE_SPEC("test.large", "a table that wants more than there is"),
    .rows = 1 << 16,
};
static const struct pb_ring_spec other = {
    PB_TABLE_SPEC("test.other", "one that comes when nothing is left"),
    .rows = 64,
};

/* A ring that does not fit is made smaller; when nothing is left there is none. Both are noted. */
static void test_budget(void **state)
{
    struct pb_self *self = agent_begin();
    struct pb_ring *ring;

    (void)state;
    self->collect->note[0] = '\0';
    self->collect->budget = 1 << 20;
    ring = pb_collect_ring(self, &large);
    assert_non_null(ring);
    assert_ptr_equal(pb_collect_ring(self, &large), ring);
    assert_true(pb_ring_bytes(ring) <= 1 << 18);
    assert_non_null(strstr(self->collect->note, "test.large: smaller than wanted"));
    self->collect->note[0] = '\0';
    self->collect->budget = (int64_t)pb_ring_bytes(ring);
    assert_null(pb_collect_ring(self, &other));
    assert_non_null(strstr(self->collect->note, "test.other: "));
    self->collect->note[0] = '\0';
    agent_end(self);
}

/* Without an interpreter there are the kernel's figures, and NULL for the rest. */
static void test_memory(void **state)
{
    const struct pb_collector *c = pb_collectors[PB_COLLECTOR_ID_memory];
    struct pb_self *self = agent_begin();
    static double reals[ROWS_MAX];
    static int64_t ints[ROWS_MAX];
    size_t size = 64 << 20;
    double before;
    char *block;

    (void)state;
    c->tick(self, 1);
    assert_int_equal(read_reals("python.memory", "rss_mb", reals), 1);
    before = reals[0];
    assert_true(before > 0.5);
    block = malloc(size);
    assert_non_null(block);
    memset(block, 1, size);
    c->tick(self, 2);
    assert_int_equal(read_reals("python.memory", "rss_mb", reals), 2);
    assert_true(reals[1] - before > 60 && reals[1] - before < 80);
    free(block);
    assert_int_equal(read_ints("python.memory", "blocks", ints), 2);
    assert_true(ints[0] == PB_NULL_INT && ints[1] == PB_NULL_INT);
    assert_int_equal(read_reals("python.memory", "python_mb", reals), 2);
    assert_true(reals[0] != reals[0]);
    agent_end(self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_meta),
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_memory),
    };

    return RUN_TESTS(tests);
}
