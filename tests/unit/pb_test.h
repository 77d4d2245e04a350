/* What every unit test starts with: cmocka and the headers it needs. */
#ifndef PB_TEST_H
#define PB_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define RUN_TESTS(tests) cmocka_run_group_tests(tests, NULL, NULL)

/* Waits for a whole line of a child, which may write it piece by piece, and closes the pipe. */
static inline void await_line(int fd)
{
    char c = 0;

    while (c != '\n')
        assert_int_equal(read(fd, &c, 1), 1);
    close(fd);
}

#endif
