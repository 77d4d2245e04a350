/* What a thread is met at, and what it is met at most. */
#include "pb_test.h"

#include <math.h>
#include <sys/syscall.h>

#include "node/waits/glances.h"

#define SITE "/v/lib/python3.11/site-packages/"

static struct pb_frame frame(const char *file, const char *func, int line)
{
    return (struct pb_frame){.file = file, .func = func, .lineno = line};
}

static struct pb_glance glance_at(struct pb_frame *frames, size_t n)
{
    struct pb_thread t = {.frames = frames, .nframes = n};

    return pb_glance_of(&t);
}

static void test_phase_of_libraries(void **state)
{
    struct pb_frame data[] = {frame("/a/set.py", "__getitem__", 7),
                              frame(SITE "torch/utils/data/_utils/fetch.py", "fetch", 5),
                              frame("/a/train.py", "train", 20)};
    struct pb_frame model[] = {frame(SITE "torch/nn/modules/linear.py", "forward", 9),
                               frame("/a/train.py", "train", 22)};
    struct pb_thread collecting = {.frames = model, .nframes = 2, .collecting = true};
    struct pb_glance g = glance_at(data, 3);

    (void)state;
    assert_int_equal(g.phase, PB_PHASE_DATA);
    assert_int_equal(g.at.line, 7); /* the innermost line of its own */
    assert_false(g.trains);
    g = glance_at(model, 2);
    assert_int_equal(g.phase, PB_PHASE_OWN);
    assert_true(g.trains);
    assert_int_equal(g.at.line, 22);
    assert_int_equal(pb_glance_of(&collecting).phase, PB_PHASE_GARBAGE);
}

static struct pb_glance with_loss(const char *name, const char *value)
{
    struct pb_local local = {.name = name, .value = value};
    struct pb_frame f = frame("/a/train.py", "train", 20);

    f.locals = &local;
    f.nlocals = 1;
    return glance_at(&f, 1);
}

static void test_losses(void **state)
{
    const char *tensor = "<torch.Tensor shape=() dtype=float32 device=cpu [nan] at 0x7f00>";
    const char *many = "<torch.Tensor shape=(2,) dtype=float32 device=cpu [nan, 1.0] at 0x7f00>";

    (void)state;
    assert_true(with_loss("loss", tensor).has_loss);
    assert_true(isnan(with_loss("loss", tensor).loss));
    assert_float_equal(with_loss("train_loss", "2.5").loss, 2.5, 0);
    assert_true(isinf(with_loss("loss", "inf").loss));
    /* What is not the loss of a step, and what is no number. */
    assert_false(with_loss("best_loss", "inf").has_loss);
    assert_false(with_loss("loss", "<function loss at 0x7f00>").has_loss);
    assert_false(with_loss("loss", "None").has_loss);
    assert_false(with_loss("loss", many).has_loss);
    /* Of tensors more names will do. */
    assert_true(with_loss("nll", tensor).has_loss);
    assert_true(with_loss("critic_loss", tensor).has_loss);
    assert_false(with_loss("val_loss", "nan").has_loss);
}

static void add(struct pb_tallies *t, enum pb_phase phase, int line, double loss)
{
    struct pb_glance g = {.phase = phase, .has_loss = true, .loss = loss,
                          .at = {.func = "f", .file = "/a.py", .line = line, .phase = phase}};

    pb_tallies_add(t, &g);
}

static void test_turns_and_places(void **state)
{
    struct pb_tallies t;
    struct pb_wait w = {.kind = PB_WAIT_RUNNING};

    (void)state;
    pb_tallies_init(&t);
    for (int i = 0; i < 10; i++) {
        add(&t, PB_PHASE_OWN, 1, 1);
        add(&t, PB_PHASE_DATA, 2, NAN);
        add(&t, PB_PHASE_DATA, 2, NAN);
    }
    pb_tallies_tell(&t, &w);
    assert_int_equal(w.glances, 30);
    assert_int_equal(w.phase, PB_PHASE_DATA);
    assert_int_equal(w.phase_glances, 20);
    assert_int_equal(w.phase_turns, 10);
    assert_int_equal(w.phase_at.line, 2);
    assert_int_equal(w.loss.bad, 2); /* in a row */
    assert_int_equal(w.loss.finite, 10);
}

/* A sleep in the function of the steps keeps their pace; one in what it calls waits for another. */
static void test_sleep_beside_the_model(void **state)
{
    struct pb_frame model[] = {frame(SITE "torch/nn/modules/linear.py", "forward", 9),
                               frame("/a/train.py", "train", 22)};
    struct pb_frame pace[] = {frame("/a/train.py", "train", 25)};
    struct pb_frame wait[] = {frame("/a/files.py", "await_file", 7),
                              frame("/a/train.py", "train", 21)};
    struct pb_thread sleeps = {.state = PB_WAITING,
                               .blocked = {.blocked = true, .nr = SYS_clock_nanosleep}};
    struct pb_glance met = glance_at(model, 2), g;
    struct pb_tallies t;
    struct pb_wait w = {.kind = PB_WAIT_RUNNING};

    (void)state;
    pb_tallies_init(&t);
    sleeps.frames = wait;
    sleeps.nframes = 2;
    g = pb_glance_of(&sleeps);
    pb_tallies_add(&t, &g); /* no model was met yet */
    pb_tallies_add(&t, &met);
    pb_tallies_add(&t, &g);
    sleeps.frames = pace;
    sleeps.nframes = 1;
    g = pb_glance_of(&sleeps);
    pb_tallies_add(&t, &g);
    pb_tallies_tell(&t, &w);
    assert_int_equal(w.phase, PB_PHASE_ASIDE);
    assert_int_equal(w.phase_glances, 1);
    assert_int_equal(w.aside_glances, 1);
    assert_int_equal(w.phase_at.line, 7);
    assert_int_equal(w.work.line, 22); /* the one that was in no system call */
}

static void test_old_glances_fade(void **state)
{
    struct pb_tallies t;
    struct pb_wait w = {.kind = PB_WAIT_RUNNING};

    (void)state;
    pb_tallies_init(&t);
    for (int i = 0; i < PB_GLANCES_KEPT; i++)
        add(&t, PB_PHASE_OWN, 1, 1);
    for (int i = 0; i < 4 * PB_GLANCES_KEPT; i++)
        add(&t, PB_PHASE_LOGGING, 2, 1);
    pb_tallies_tell(&t, &w);
    assert_true(w.glances <= PB_GLANCES_KEPT);
    assert_int_equal(w.phase, PB_PHASE_LOGGING);
    assert_true(w.phase_glances > 0.9 * (double)w.glances);
    assert_int_equal(w.busy.line, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_phase_of_libraries),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_turns_and_places),
        cmocka_unit_test(test_sleep_beside_the_model),
        cmocka_unit_test(test_old_glances_fade),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
