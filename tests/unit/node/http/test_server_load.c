/* The server and clients that go away, dawdle, attack, or are simply too many. */
#include "pb_test.h"

#include "base/clock.h"
#include "node/http/serving.h"

static void test_gone(void **state)
{
    const char *ask = "GET /wait HTTP/1.1\r\nHost: localhost\r\nX-Probing-Token: " TOKEN
                      "\r\n\r\n";
    struct server t;
    int fds[6];

    (void)state;
    start(&t, true, false);
    for (int i = 0; i < 6; i++) {
        fds[i] = dial(&t, i % 2);
        assert_int_equal(send(fds[i], ask, strlen(ask), 0), strlen(ask));
    }
    eventually(&waiting, 6);
    close(fds[0]);
    close(fds[1]);
    eventually(&went_away, 2);
    assert_int_equal(atomic_load(&waiting), 4);
    /* The others end with the server. */
    pb_server_destroy(t.s);
    assert_int_equal(atomic_load(&went_away), 6);
    for (int i = 2; i < 6; i++)
        close(fds[i]);
}

/* A reader that stops: its writer notices when it goes, and others are served meanwhile. */
static void test_slow_reader(void **state)
{
    const char *ask = "GET /long HTTP/1.1\r\nHost: x\r\n\r\n";
    struct server t;
    int fd;

    (void)state;
    start(&t, false, false);
    fd = dial(&t, false);
    assert_int_equal(send(fd, ask, strlen(ask), 0), strlen(ask));
    usleep(50000);
    assert_int_equal(status_of(&t, false, "GET /fast HTTP/1.1\r\nHost: x\r\n\r\n"), 200);
    assert_int_equal(atomic_load(&went_away), 0);
    close(fd);
    eventually(&went_away, 1);
    pb_server_destroy(t.s);
}

/* Whoever is too slow is told so, if that makes sense, and closed. */
static void test_deadlines(void **state)
{
    struct pb_limits quick = {.head = 300, .idle = 900, .body = 300, .queue = 300, .linger = 300,
                              .write = 300, .local_write = 300};
    const char *big = "GET /long HTTP/1.1\r\nHost: x\r\nX-Probing-Token: " TOKEN "\r\n\r\n";
    struct pollfd p = {.events = POLLIN};
    struct server t;
    char *in;

    (void)state;
    start_with(&t, &quick, true, false);
    p.fd = dial(&t, false);
    assert_string_equal(talk(p.fd, "", NULL), ""); /* nothing said: nothing answered */
    close(p.fd);
    p.fd = dial(&t, false);
    in = talk(p.fd, "GET /fast HT", NULL);
    assert_true(strncmp(in, "HTTP/1.1 408 ", 13) == 0);
    close(p.fd);
    p.fd = dial(&t, false);
    in = talk(p.fd, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                    "Content-Length: 9\r\n\r\n{", NULL);
    assert_true(strncmp(in, "HTTP/1.1 408 ", 13) == 0);
    close(p.fd);
    p.fd = dial(&t, false);
    in = talk(p.fd, "GET /fast HTTP/1.1\r\nHost: x\r\n\r\n", "fast");
    assert_int_equal(poll(&p, 1, 20), 0);
    assert_int_equal(poll(&p, 1, 20000), 1); /* idle: closed */
    close(p.fd);
    p.fd = dial(&t, true);
    (void)!send(p.fd, big, strlen(big), MSG_NOSIGNAL);
    eventually(&went_away, 1); /* a reader that takes nothing */
    close(p.fd);
    pb_server_destroy(t.s);
}

enum { HOSTILE = 200 };

/* Half of a request, garbage, nothing, a body that never comes: none of them costs a good one. */
static void test_hostile(void **state)
{
    static const char *const texts[] = {
        "GET /fast HTTP/1.1\r\nHost: x\r\nX-Slow: ", "",
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
        "\x80\x81\x82\x83", "GET ", "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n",
    };
    struct server t;
    int fds[HOSTILE];
    uint64_t slowest = 0;

    (void)state;
    start(&t, true, false);
    for (int i = 0; i < HOSTILE; i++) {
        const char *text = texts[i % 6];

        fds[i] = dial(&t, true);
        (void)!send(fds[i], text, strlen(text), MSG_NOSIGNAL);
    }
    for (int i = 0; i < 40; i++) {
        uint64_t begin = pb_clock_ns();

        assert_int_equal(status_of(&t, i % 2, "GET /fast HTTP/1.1\r\nHost: localhost\r\n"
                                              "X-Probing-Token: " TOKEN "\r\n\r\n"), 200);
        if (pb_clock_ns() - begin > slowest)
            slowest = pb_clock_ns() - begin;
    }
    assert_true(slowest < 5000000000ull);
    for (int i = 0; i < HOSTILE; i++)
        close(fds[i]);
    pb_server_destroy(t.s);
}

/* More than there is room for: the oldest idle ones go, the newest is served; Unix is apart. */
static void test_flood(void **state)
{
    static int fds[PB_SERVER_HELD + 50];
    const char *ask = "GET /fast HTTP/1.1\r\nHost: localhost\r\nX-Probing-Token: " TOKEN
                      "\r\n\r\n";
    struct server t;
    char byte;

    (void)state;
    start(&t, true, false);
    for (int i = 0; i < PB_SERVER_HELD + 50; i++)
        fds[i] = dial(&t, true);
    assert_int_equal(status_of(&t, true, ask), 200);
    assert_int_equal(status_of(&t, false, ask), 200);
    assert_int_equal(recv(fds[0], &byte, 1, 0), 0);
    for (int i = 0; i < PB_SERVER_HELD + 50; i++)
        close(fds[i]);
    pb_server_destroy(t.s);
}

/* All threads of TCP are taken: the next one waits for its turn, the Unix socket does not. */
static void test_all_busy(void **state)
{
    static int fds[PB_SERVER_BUSY];
    const char *ask = "GET /wait HTTP/1.1\r\nHost: localhost\r\nX-Probing-Token: " TOKEN
                      "\r\n\r\n";
    const char *next = "GET /fast HTTP/1.1\r\nHost: localhost\r\nX-Probing-Token: " TOKEN
                       "\r\n\r\n";
    struct pollfd p = {.events = POLLIN};
    struct server t;
    int active, listeners;
    uint64_t last;

    (void)state;
    start(&t, true, false);
    for (int i = 0; i < PB_SERVER_BUSY; i++) {
        fds[i] = dial(&t, true);
        (void)!send(fds[i], ask, strlen(ask), MSG_NOSIGNAL);
    }
    eventually(&waiting, PB_SERVER_BUSY);
    pb_server_activity(t.s, &active, &last, &listeners);
    assert_int_equal(active, PB_SERVER_BUSY);
    assert_int_equal(listeners, 1);
    p.fd = dial(&t, true);
    (void)!send(p.fd, next, strlen(next), MSG_NOSIGNAL);
    assert_int_equal(poll(&p, 1, 50), 0);
    assert_int_equal(status_of(&t, false, next), 200);
    close(fds[0]);
    assert_int_equal(poll(&p, 1, 5000), 1);
    close(p.fd);
    for (int i = 1; i < PB_SERVER_BUSY; i++)
        close(fds[i]);
    eventually(&waiting, 0);
    pb_server_destroy(t.s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gone),      cmocka_unit_test(test_slow_reader),
        cmocka_unit_test(test_deadlines), cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_flood),     cmocka_unit_test(test_all_busy),
    };

    return RUN_TESTS(tests);
}
