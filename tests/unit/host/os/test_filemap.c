/* Files that are cut off while they are mapped read as zeros from there on. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/os/filemap.h"
#include "pb_test.h"

enum { SIZE = 64 << 10, FILES = 600, ROUNDS = 2000 };

static int make_file(void)
{
    char name[] = "/tmp/pb-filemap-XXXXXX", text[4096];
    int fd = mkstemp(name);

    assert_true(fd >= 0);
    unlink(name);
    memset(text, 'x', sizeof text);
    for (int i = 0; i < SIZE; i += (int)sizeof text)
        assert_int_equal(write(fd, text, sizeof text), (ssize_t)sizeof text);
    return fd;
}

static void what_is_cut_off_reads_as_zeros(void **state)
{
    int fd = make_file();
    const uint8_t *data = pb_filemap_open(fd, SIZE);

    (void)state;
    pb_filemap_watch(); /* the test library has a handler of its own around each test */
    assert_non_null(data);
    assert_int_equal(data[SIZE - 1], 'x');
    assert_int_equal(data[SIZE], 0); /* a text that does not end in the file ends behind it */
    assert_int_equal(ftruncate(fd, 4096), 0);
    assert_int_equal(data[4095], 'x');
    for (int i = SIZE - 1; i >= 4096; i -= 512)
        assert_int_equal(data[i], 0);
    pb_filemap_close(data, SIZE);
    close(fd);
}

static void more_files_than_fit_into_one_block(void **state)
{
    const uint8_t *data[FILES];
    int fd = make_file();

    (void)state;
    pb_filemap_watch();
    for (int i = 0; i < FILES; i++)
        assert_non_null(data[i] = pb_filemap_open(fd, SIZE));
    assert_int_equal(ftruncate(fd, 0), 0);
    for (int i = 0; i < FILES; i++) {
        assert_int_equal(data[i][i], 0);
        pb_filemap_close(data[i], SIZE);
    }
    close(fd);
}

static void *open_and_read(void *arg)
{
    int fd = *(int *)arg;
    long sum = 0;

    for (int i = 0; i < ROUNDS; i++) {
        const uint8_t *data = pb_filemap_open(fd, SIZE);

        for (int k = 0; data && k < SIZE; k += 4096)
            sum += data[k];
        pb_filemap_close(data, SIZE);
    }
    return sum > 0 ? arg : NULL;
}

static void many_threads_and_a_file_that_comes_and_goes(void **state)
{
    pthread_t threads[3];
    int fd = make_file();

    (void)state;
    pb_filemap_watch();
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_and_read, &fd), 0);
    for (int i = 0; i < ROUNDS; i++) {
        assert_int_equal(ftruncate(fd, 4096), 0);
        assert_int_equal(ftruncate(fd, SIZE), 0);
    }
    for (int i = 0; i < 3; i++) {
        void *ok;

        assert_int_equal(pthread_join(threads[i], &ok), 0);
        assert_ptr_equal(ok, &fd);
    }
    close(fd);
}

static void any_other_address_is_not_mended(void **state)
{
    int here = 0;

    (void)state;
    assert_false(pb_filemap_mend(&here));
    assert_false(pb_filemap_mend(NULL));
}

/* A signal that somebody sends is about no page. */
static void a_signal_from_elsewhere_ends_the_process(void **state)
{
    int status;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        signal(SIGBUS, SIG_DFL);
        pb_filemap_watch();
        kill(getpid(), SIGBUS);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_cut_off_reads_as_zeros),
        cmocka_unit_test(more_files_than_fit_into_one_block),
        cmocka_unit_test(many_threads_and_a_file_that_comes_and_goes),
        cmocka_unit_test(any_other_address_is_not_mended),
        cmocka_unit_test(a_signal_from_elsewhere_ends_the_process),
    };

    return RUN_TESTS(tests);
}
