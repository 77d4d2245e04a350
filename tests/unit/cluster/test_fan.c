/* One question to servers that answer, lie, stall, break off and are not there. */
#include "pb_test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "cluster/fan.h"

/* A server that reads a request and then says its piece; NULL: nothing, ever. */
struct server {
    char path[64];
    const char *says;
    int fd, last; /* last: a connection that is held */
    pthread_t thread;
};

static void *serve(void *arg)
{
    struct server *s = arg;
    char in[4096];
    int fd = accept(s->fd, NULL, NULL);

    if (fd < 0 || recv(fd, in, sizeof in, 0) < 0)
        return NULL;
    if (!s->says) {
        s->last = fd;
        return NULL;
    }
    send(fd, s->says, strlen(s->says), MSG_NOSIGNAL);
    close(fd);
    return NULL;
}

static void start(struct server *s, int number, const char *says)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    *s = (struct server){.says = says, .last = -1};
    snprintf(s->path, sizeof s->path, "/tmp/pb-fan-%d-%d", (int)getpid(), number);
    strcpy(at.sun_path, s->path);
    unlink(s->path);
    s->fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(s->fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(s->fd, 8), 0);
    pthread_create(&s->thread, NULL, serve, s);
}

static void stop(struct server *s)
{
    shutdown(s->fd, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    close(s->fd);
    if (s->last >= 0)
        close(s->last);
    unlink(s->path);
}

static int collect(const void *data, size_t len, void *arg, struct pb_err *err)
{
    pb_buf_add(arg, data, len);
    return ((struct pb_buf *)arg)->len > 100 ? pb_err_set(err, PB_FAIL, "too long") : 0;
}

#define HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"

static void test_all_kinds(void **state)
{
    static const struct {
        const char *says, *body, *error;
        enum pb_code code;
    } kinds[] = {
        {HEAD "Content-Length: 5\r\n\r\nhello", "hello", NULL, PB_OK},
        {HEAD "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", "abcde", NULL,
         PB_OK},
        {HEAD "Content-Length: 0\r\n\r\n", NULL, NULL, PB_OK},
        {HEAD "Content-Length: 50\r\n\r\nhello", "hello", "broke off", PB_FAIL},
        {HEAD "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", NULL, "makes no sense", PB_FAIL},
        {HEAD "Content-Length: 2000\r\n\r\n0123456789012345678901234567890123456789012345678901234"
              "5678901234567890123456789012345678901234567890123456789", NULL, "too long", PB_FAIL},
        {"HTTP/1.1 403 Forbidden\r\nContent-Length: 51\r\n\r\n"
         "{\"error\":{\"code\":\"denied\",\"message\":\"not for you\"}}", NULL, "not for you",
         PB_DENIED},
        {"SSH-2.0-OpenSSH_9.2\r\n\r\n", NULL, "no node", PB_FAIL},
        {"", NULL, "without an answer", PB_FAIL},
        {NULL, NULL, "no answer in time", PB_TIMEOUT},
    };
    enum { N = sizeof kinds / sizeof *kinds };
    struct server servers[N];
    struct pb_fan_one v[N + 1] = {{0}};
    struct pb_buf got[N + 1] = {PB_BUF_INIT};
    struct pb_fan_request r = {.method = "POST", .path = "/x", .body = "{}", .body_len = 2,
                               .deadline_ns = pb_clock_ns() + 700000000};
    uint64_t began = pb_clock_ns();

    (void)state;
    for (int i = 0; i < N; i++) {
        start(&servers[i], i, kinds[i].says);
        v[i] = (struct pb_fan_one){.socket = servers[i].path, .sink = collect, .arg = &got[i]};
    }
    v[N] = (struct pb_fan_one){.socket = "/tmp/nobody-is-there", .sink = collect, .arg = &got[N]};
    assert_int_equal(pb_fan_ask(v, N + 1, &r), 3);
    assert_in_range((pb_clock_ns() - began) / 1000000, 690, 5000); /* the mute one, alone */
    for (int i = 0; i < N; i++) {
        assert_int_equal(v[i].answered, kinds[i].code == PB_OK);
        assert_int_equal(v[i].err.code, kinds[i].code);
        if (kinds[i].error && !strstr(v[i].err.msg, kinds[i].error))
            print_error("%d: '%s'\n", i, v[i].err.msg);
        if (kinds[i].error)
            assert_non_null(strstr(v[i].err.msg, kinds[i].error));
        if (kinds[i].body)
            assert_string_equal(got[i].data, kinds[i].body);
        pb_buf_finish(&got[i]);
        stop(&servers[i]);
    }
    assert_int_equal(v[N].err.code, PB_NO_TARGET);
    assert_true(v[0].bytes_out > 40 && v[0].bytes_in > 40);
}

static void *cancel(void *flag)
{
    usleep(100000);
    atomic_store((_Atomic bool *)flag, true);
    return NULL;
}

static void test_cancel(void **state)
{
    _Atomic bool flag = false;
    struct server s;
    struct pb_fan_one one = {0};
    struct pb_fan_request r = {.method = "GET", .path = "/", .cancelled = &flag,
                               .deadline_ns = pb_clock_ns() + 60000000000ull};
    pthread_t thread;

    (void)state;
    start(&s, 99, NULL);
    one.socket = s.path;
    pthread_create(&thread, NULL, cancel, &flag);
    assert_int_equal(pb_fan_ask(&one, 1, &r), 0);
    assert_string_equal(one.err.msg, "cancelled");
    pthread_join(thread, NULL);
    stop(&s);
}

static void test_addresses(void **state)
{
    static const char *const bad[] = {"localhost:80", "1.2.3.4", "x", "", "1.2.3.4:99999"};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct pb_fan_one one = {.address = bad[i]};
        struct pb_fan_request r = {.method = "GET", .path = "/",
                                   .deadline_ns = pb_clock_ns() + 1000000000};

        assert_int_equal(pb_fan_ask(&one, 1, &r), 0);
        assert_int_not_equal(one.err.code, PB_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_kinds),
                                       cmocka_unit_test(test_cancel),
                                       cmocka_unit_test(test_addresses)};

    return RUN_TESTS(tests);
}
