/* Heads, bodies and addresses; and the client against servers that behave in all kinds of ways. */
#include "pb_test.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/text/buf.h"
#include "host/net/http.h"

static char bytes[PB_HTTP_HEAD_MAX * 2];
static struct pb_http_head head;

static long parse(const char *text)
{
    strcpy(bytes, text);
    return pb_http_parse(&head, bytes, strlen(text), true);
}

static void test_request(void **state)
{
    const char *text = "POST /a%20b?x=1&y=a%2Bb+c&flag HTTP/1.1\r\nHost: h\r\n"
                       "Content-Length: 12\r\nX-Y:  v  \r\nConnection: close\r\n\r\nrest";
    struct pb_arena a = PB_ARENA_INIT;

    (void)state;
    assert_int_equal(parse(text), strlen(text) - 4);
    assert_string_equal(head.method, "POST");
    assert_string_equal(head.path, "/a b");
    assert_string_equal(pb_http_param(&head, "x", &a), "1");
    assert_string_equal(pb_http_param(&head, "y", &a), "a+b c");
    assert_string_equal(pb_http_param(&head, "flag", &a), "");
    assert_null(pb_http_param(&head, "z", &a));
    assert_int_equal(head.length, 12);
    assert_string_equal(pb_http_header(&head, "x-y"), "v");
    assert_false(head.keep_alive);
    assert_int_equal(parse("\r\nGET / HTTP/1.0\r\n\r\n"), 20);
    assert_true(head.http_1_0 && !head.keep_alive);
    pb_arena_finish(&a);
}

static void test_incomplete(void **state)
{
    const char *text = "GET /x HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n";

    (void)state;
    for (size_t n = 0; n < strlen(text); n++) {
        strcpy(bytes, text);
        assert_int_equal(pb_http_parse(&head, bytes, n, true), 0);
        assert_string_equal(bytes, text); /* untouched until it is complete */
    }
}

static void test_refused(void **state)
{
    static const struct {
        const char *text;
        int status;
    } cases[] = {
        {"GET / HTTP/1.1\r\n\r\n", 400}, /* no Host */
        {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nOrigin: http://a\r\nOrigin: http://b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: x\r\nAuthorization: y\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\n"
         "Content-Type: application/json\r\n\r\n", 400},
        {"GET / HTTP/1.1\nHost: a\n\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\x01\r\n\r\n", 400},
        {"\x16\x03\x01", 400}, /* TLS */
        {"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
        {"GET / FTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
         400},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501},
        {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (parse(cases[i].text) != -cases[i].status)
            fail_msg("%s", cases[i].text);
}

static void test_limits(void **state)
{
    int n;

    (void)state;
    memset(bytes, 'a', sizeof bytes);
    memcpy(bytes, "GET /", 5);
    assert_int_equal(pb_http_parse(&head, bytes, PB_HTTP_HEAD_MAX - 1, true), 0);
    assert_int_equal(pb_http_parse(&head, bytes, PB_HTTP_HEAD_MAX, true), -414);
    memcpy(bytes, "GET / HTTP/1.1\r\nHost: x\r\n", 25);
    assert_int_equal(pb_http_parse(&head, bytes, PB_HTTP_HEAD_MAX, true), -431);
    n = snprintf(bytes, sizeof bytes, "GET / HTTP/1.1\r\nHost: x\r\n");
    for (int i = 0; i < PB_HTTP_HEADERS_MAX; i++)
        n += snprintf(bytes + n, sizeof bytes - (size_t)n, "a: b\r\n");
    n += snprintf(bytes + n, sizeof bytes - (size_t)n, "\r\n");
    assert_int_equal(pb_http_parse(&head, bytes, (size_t)n, true), -431);
}

static void test_words(void **state)
{
    (void)state;
    assert_true(pb_http_lists("keep-alive, Upgrade", "upgrade"));
    assert_true(pb_http_is_type("application/json", "application/json"));
    assert_true(pb_http_is_type("Application/JSON ; charset=utf-8; a=\"x,\\\"y\"",
                                "application/json"));
    assert_false(pb_http_is_type("text/plain;a=,application/json", "application/json"));
    assert_false(pb_http_is_type("application/json,text/plain", "application/json"));
    assert_false(pb_http_is_type("application/json;a=,text/plain", "application/json"));
    assert_false(pb_http_is_type("application/jsonx", "application/json"));
    assert_false(pb_http_is_type("application/json; charset=\"utf", "application/json"));
    assert_false(pb_http_is_type(NULL, "application/json"));
    assert_false(pb_http_lists("closed", "close"));
    assert_false(pb_http_lists(NULL, "close"));
    parse("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
    assert_true(head.upgrade);
    parse("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\n\r\n");
    assert_false(head.upgrade);
}

/* The body of a chunked message, fed in pieces of a given size; "!" when it makes no sense. */
static const char *unchunk(const char *text, size_t step)
{
    static char out[256];
    struct pb_http_head h = {.chunked = true, .length = -1};
    struct pb_http_body b;
    size_t n = 0, len = strlen(text);

    pb_http_body_init(&b, &h, true);
    for (size_t at = 0; at < len && b.state != PB_BODY_DONE;) {
        const char *piece;
        size_t got, give = len - at < step ? len - at : step;
        long used = pb_http_body_feed(&b, text + at, give, &piece, &got);

        if (used < 0)
            return "!";
        memcpy(out + n, piece, got);
        n += got;
        at += (size_t)used;
    }
    out[n] = '\0';
    return b.state == PB_BODY_DONE ? out : "?";
}

static void test_trailer(void **state)
{
    static const char text[] = "1\r\nx\r\n0\r\nA: b\r\nLonger: c d\r\n\r\n";
    struct pb_http_head h = {.chunked = true, .length = -1};
    char lines[PB_HTTP_TRAILER_MAX], endless[2 * PB_HTTP_TRAILER_MAX];
    struct pb_http_body b;
    const char *piece;
    size_t got;

    (void)state;
    for (size_t step = 1; step < sizeof text; step++) {
        size_t at = 0;

        pb_http_body_init(&b, &h, false);
        b.trailer = lines;
        while (b.state != PB_BODY_DONE) {
            size_t give = sizeof text - 1 - at < step ? sizeof text - 1 - at : step;
            long used = pb_http_body_feed(&b, text + at, give, &piece, &got);

            assert_true(used > 0);
            at += (size_t)used;
        }
        assert_int_equal(b.trailer_len, 18);
        assert_memory_equal(lines, "A: b\nLonger: c d\n\n", 18);
    }
    memset(endless, 'x', sizeof endless);
    memcpy(endless, "0\r\n", 3);
    pb_http_body_init(&b, &h, false);
    b.trailer = lines;
    assert_int_equal(pb_http_body_feed(&b, endless, sizeof endless, &piece, &got), -1);
}

static void test_chunks(void **state)
{
    (void)state;
    for (size_t step = 1; step < 40; step++) {
        assert_string_equal(unchunk("5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nA: b\r\n\r\n", step),
                            "hello world");
        assert_string_equal(unchunk("5\r\nhello\r\n", step), "?");
        assert_string_equal(unchunk("5\r\nhelloX\r\n0\r\n\r\n", step), "!");
        assert_string_equal(unchunk("\r\n", step), "!");
        assert_string_equal(unchunk("5\nhello", step), "!");
        assert_string_equal(unchunk("0x5\r\nhello", step), "!");
        assert_string_equal(unchunk("123456789\r\n", step), "!");
        assert_string_equal(unchunk("-1\r\n", step), "!");
    }
}

static void test_split(void **state)
{
    static const struct {
        const char *text, *host, *port;
    } good[] = {
        {"a.b:80", "a.b", "80"}, {"[::1]:8080", "::1", "8080"}, {":80", "", "80"},
        {"8080", "", "8080"},    {"0.0.0.0:0", "0.0.0.0", "0"},
    };
    static const char *const bad[] = {"", "a", "a:", "a:b", "a:70000", "::1", "a:80x", "a:-1"};
    char host[PB_HTTP_NAME_MAX], port[8];
    struct pb_err err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(pb_http_split(good[i].text, host, port, &err), 0);
        assert_string_equal(host, good[i].host);
        assert_string_equal(port, good[i].port);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(pb_http_split(bad[i], host, port, NULL), -1);
}

static void test_encode(void **state)
{
    struct pb_buf b = PB_BUF_INIT;

    (void)state;
    pb_http_encode(&b, "a b/\xc3\xa9?&=+~");
    assert_string_equal(b.data, "a%20b%2F%C3%A9%3F%26%3D%2B~");
    pb_buf_finish(&b);
}

/* A server that reads a request and answers with what it was given, then closes. */
struct script {
    int fd;
    const char *answers[4]; /* one a connection */
    int pause_ms;           /* before it answers */
    char path[64];
    pthread_t thread;
};

static void *play(void *arg)
{
    struct script *s = arg;
    char in[4096];

    for (int i = 0; s->answers[i]; i++) {
        int fd = accept(s->fd, NULL, NULL);

        if (read(fd, in, sizeof in) > 0) {
            usleep((useconds_t)s->pause_ms * 1000);
            (void)!write(fd, s->answers[i], strlen(s->answers[i]));
        }
        close(fd);
    }
    return NULL;
}

static struct pb_http_client *start(struct script *s)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct pb_http_where where = {.socket = s->path};
    struct pb_http_client *c = NULL;
    struct pb_err err = {0};

    snprintf(s->path, sizeof s->path, "/tmp/pb-http-%d", (int)getpid());
    strcpy(at.sun_path, s->path);
    unlink(s->path);
    s->fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(s->fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(s->fd, 4), 0);
    pthread_create(&s->thread, NULL, play, s);
    assert_int_equal(pb_http_connect(&c, &where, 1000, &err), 0);
    return c;
}

static void stop(struct script *s, struct pb_http_client *c)
{
    pb_http_close(c);
    pthread_join(s->thread, NULL);
    close(s->fd);
    unlink(s->path);
}

static int collect(const void *data, size_t len, void *arg)
{
    pb_buf_add(arg, data, len);
    return 0;
}

/* One question; returns what went wrong, or "", or the body in *ret. */
static const char *ask(const char *answer, struct pb_buf *ret, int *status)
{
    static struct pb_err err;
    struct pb_http_request r = {.method = "GET", .path = "/", .timeout_ms = 2000};
    struct script s = {.answers = {answer}};
    struct pb_http_client *c = start(&s);

    err = (struct pb_err){0};
    pb_http_ask(c, &r, collect, ret, status, &err);
    stop(&s, c);
    return err.msg;
}

static void test_answers(void **state)
{
    struct pb_buf b = PB_BUF_INIT;
    int status;

    (void)state;
    assert_string_equal(ask("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", &b, &status), "");
    assert_string_equal(b.data, "hello");
    pb_buf_clear(&b);
    assert_string_equal(ask("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 No\r\n"
                            "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", &b, &status),
                        "");
    assert_int_equal(status, 404);
    assert_string_equal(b.data, "hi");
    pb_buf_clear(&b);
    assert_string_equal(ask("HTTP/1.0 200 OK\r\n\r\nto the end", &b, &status), "");
    assert_string_equal(b.data, "to the end");
    pb_buf_clear(&b);
    assert_string_equal(ask("HTTP/1.1 204 No\r\n\r\n", &b, &status), "");
    assert_int_equal(b.len, 0);
    pb_buf_finish(&b);
}

static void test_broken_answers(void **state)
{
    struct pb_buf b = PB_BUF_INIT;
    int status;

    (void)state;
    assert_string_equal(ask("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", &b, &status),
                        "the answer broke off after 5 bytes");
    assert_string_equal(ask("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
                            &b, &status), "the answer broke off after 5 bytes");
    assert_string_equal(ask("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz", &b,
                            &status), "the answer makes no sense");
    assert_string_equal(ask("", &b, &status), "the connection was closed without an answer");
    assert_string_equal(ask("HTTP/1.1 200", &b, &status), "the answer broke off");
    assert_string_equal(ask("SSH-2.0-OpenSSH\r\n\r\n", &b, &status),
                        "what answers is no HTTP server");
    pb_buf_finish(&b);
}

static void test_timeout_and_cancel(void **state)
{
    const char *answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    struct script s = {.answers = {answer, answer}, .pause_ms = 1500};
    struct pb_http_request r = {.method = "GET", .path = "/", .timeout_ms = 100};
    struct pb_http_client *c = start(&s);
    _Atomic bool cancelled = true;
    struct pb_err err = {0};
    uint64_t begin = pb_clock_ns();
    int status;

    (void)state;
    assert_int_equal(pb_http_ask(c, &r, NULL, NULL, &status, &err), -1);
    assert_int_equal(err.code, PB_TIMEOUT);
    assert_string_equal(err.msg, "no answer after 0.1 s");
    r.timeout_ms = 0;
    r.cancelled = &cancelled;
    err = (struct pb_err){0};
    assert_int_equal(pb_http_ask(c, &r, NULL, NULL, &status, &err), -1);
    assert_string_equal(err.msg, "cancelled");
    assert_true(pb_clock_ns() - begin < 1400000000ull);
    stop(&s, c);
}

/* The server closed after the first answer: the second question opens a new connection. */
static void test_reconnects(void **state)
{
    const char *answer = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
    struct script s = {.answers = {answer, answer}};
    struct pb_http_request r = {.method = "GET", .path = "/", .timeout_ms = 2000};
    struct pb_http_client *c = start(&s);
    struct pb_err err = {0};
    int status;

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pb_http_ask(c, &r, NULL, NULL, &status, &err), 0);
        assert_int_equal(status, 200);
        usleep(20000);
    }
    stop(&s, c);
}

static void test_upgrade(void **state)
{
    struct script s = {.answers = {"HTTP/1.1 101 Go\r\nUpgrade: x\r\n\r\nfirst"}};
    struct pb_http_client *c = start(&s);
    struct pb_err err = {0};
    char in[16] = "";
    int fd = pb_http_upgrade(c, "/", "{}", "x", &err);

    (void)state;
    assert_true(fd >= 0);
    usleep(20000);
    assert_int_equal(read(fd, in, sizeof in), 5); /* what came with the head is not lost */
    assert_string_equal(in, "first");
    close(fd);
    stop(&s, NULL);
    s = (struct script){.answers = {"HTTP/1.1 401 No\r\nContent-Length: 45\r\n\r\n"
                                    "{\"error\":{\"code\":\"denied\",\"message\":\"token\"}}"}};
    assert_int_equal(pb_http_upgrade(start(&s), "/", "{}", "x", &err), -1);
    assert_int_equal(err.code, PB_DENIED);
    assert_string_equal(err.msg, "token");
    stop(&s, NULL);
}

static void test_nobody(void **state)
{
    struct pb_http_where where = {.socket = "/tmp/pb-http-nobody"};
    struct pb_http_client *c;
    struct pb_err err = {0};

    (void)state;
    assert_int_equal(pb_http_connect(&c, &where, 1000, &err), -1);
    assert_int_equal(err.code, PB_NO_TARGET);
    where = (struct pb_http_where){.host = "127.0.0.1:1"};
    err = (struct pb_err){0};
    assert_int_equal(pb_http_connect(&c, &where, 1000, &err), -1);
    assert_string_equal(err.msg, "127.0.0.1:1: nobody listens there");
}

static void test_explain(void **state)
{
    struct pb_err err = {0};

    (void)state;
    pb_http_explain(400, "{\"error\":{\"code\":\"timeout\",\"message\":\"late\"}}", 45, &err);
    assert_int_equal(err.code, PB_TIMEOUT);
    assert_string_equal(err.msg, "late");
    err = (struct pb_err){0};
    pb_http_explain(404, "<html>", 6, &err);
    assert_int_equal(err.code, PB_NO_TARGET);
    assert_string_equal(err.msg, "HTTP status 404 (Not Found)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request),    cmocka_unit_test(test_incomplete),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_limits),
        cmocka_unit_test(test_words),      cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_trailer),
        cmocka_unit_test(test_split),      cmocka_unit_test(test_encode),
        cmocka_unit_test(test_answers),    cmocka_unit_test(test_broken_answers),
        cmocka_unit_test(test_timeout_and_cancel),
        cmocka_unit_test(test_reconnects), cmocka_unit_test(test_upgrade),
        cmocka_unit_test(test_nobody),     cmocka_unit_test(test_explain),
    };

    signal(SIGPIPE, SIG_IGN);
    return RUN_TESTS(tests);
}
