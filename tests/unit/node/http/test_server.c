/* The server with routes of the test's own: what it answers to whom. */
#include "pb_test.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/home.h"
#include "host/net/http.h"
#include "node/http/serving.h"

static void test_answers(void **state)
{
    struct server t;
    int fd;
    char *in;

    (void)state;
    start(&t, false, false);
    fd = dial(&t, false);
    /* Three in one go on one connection, the last one closes it. */
    in = talk(fd, "GET /fast HTTP/1.1\r\nHost: x\r\n\r\n"
                  "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                  "Content-Length: 14\r\n\r\n{\"text\":\"two\"}"
                  "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                  "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "9\r\n{\"text\":\"\r\n7\r\nthree\"}\r\n0\r\n\r\n", NULL);
    assert_non_null(strstr(in, "Content-Length: 4\r\n\r\nfastHTTP/1.1 200 OK"));
    assert_non_null(strstr(in, "Content-Length: 3\r\n\r\ntwoHTTP/1.1 200 OK"));
    assert_non_null(strstr(in, "Connection: close\r\n"));
    assert_string_equal(in + strlen(in) - 5, "three");
    close(fd);
    fd = dial(&t, false);
    in = talk(fd, "HEAD /fast HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", NULL);
    assert_string_equal(in + strlen(in) - 21, "Content-Length: 4\r\n\r\n");
    close(fd);
    pb_server_destroy(t.s);
    assert_int_equal(access(t.path, F_OK), -1);
}

static void test_refusals(void **state)
{
    static const struct {
        int status;
        const char *text;
    } cases[] = {
        {200, "GET /fast HTTP/1.1\r\nHost: x\r\n\r\n"},
        {404, "GET /fas HTTP/1.1\r\nHost: x\r\n\r\n"},
        {405, "POST /fast HTTP/1.1\r\nHost: x\r\n\r\n"},
        {405, "OPTIONS /echo HTTP/1.1\r\nHost: x\r\n\r\n"},
        {400, "GET /fast HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"},
        {415, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"},
        {413, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
              "Content-Length: 99999999\r\n\r\n"},
        {400, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
              "Content-Length: 2\r\n\r\n[]"},
        {400, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
              "Content-Length: 2\r\n\r\n{,"},
        {400, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
              "Transfer-Encoding: chunked\r\n\r\nzz\r\n"},
        {417, "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: gold\r\n\r\n"},
        {400, "\x16\x03\x01\x02"},
        {505, "GET / HTTP/3.0\r\n\r\n"},
        {404, "GET /late HTTP/1.1\r\nHost: x\r\n\r\n"},
    };
    struct server t;
    int fd;

    (void)state;
    start(&t, false, false);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (status_of(&t, false, cases[i].text) != cases[i].status)
            fail_msg("not %d: %s", cases[i].status, cases[i].text);
    fd = dial(&t, false);
    assert_non_null(strstr(talk(fd, "PUT /fast HTTP/1.1\r\nHost: x\r\n\r\n", NULL),
                           "\r\nAllow: GET, HEAD\r\n"));
    close(fd);
    fd = dial(&t, false);
    assert_non_null(strstr(talk(fd, "GET /late HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                                NULL),
                           "{\"error\":{\"code\":\"no_target\",\"message\":\"no \\\"such\\\" "
                           "thing\",\"at\":7,\"nearest\":\"suchlike\"}}\n"));
    close(fd);
    fd = dial(&t, false);
    assert_non_null(strstr(talk(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                                    "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n",
                                "100 Continue\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n"));
    assert_non_null(strstr(talk(fd, "{}", "none"), "HTTP/1.1 200 OK"));
    close(fd);
    pb_server_destroy(t.s);
}

static void test_strangers(void **state)
{
    static const struct {
        int status, status_without_token;
        const char *text;
    } cases[] = {
        {401, 200, "GET /fast HTTP/1.1\r\nHost: localhost\r\n\r\n"},
        {401, 200, "GET /fast HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n\r\n"},
        {401, 200, "GET /fast HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " TOKEN
                   "x\r\n\r\n"},
        {401, 200, "GET /fast HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \r\n\r\n"},
        {200, 200, "GET /fast HTTP/1.1\r\nHost: localhost\r\nAuthorization: bearer " TOKEN
                   "\r\n\r\n"},
        {200, 403, "GET /fast HTTP/1.1\r\nHost: any.name\r\nX-Probing-Token: " TOKEN "\r\n\r\n"},
        {401, 404, "GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"},
        {200, 200, "GET /open HTTP/1.1\r\nHost: localhost:99\r\n\r\n"},
        {403, 403, "GET /open HTTP/1.1\r\nHost: evil.example\r\n\r\n"},
        {403, 403, "GET /open HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n"},
        {403, 403, "GET /open HTTP/1.1\r\nHost: [::1]evil.example\r\n\r\n"},
        {403, 403, "GET /open HTTP/1.1\r\nHost: localhost:9evil\r\n\r\n"},
        {415, 415, "POST /echo HTTP/1.1\r\nHost: localhost\r\nX-Probing-Token: " TOKEN
                   "\r\nContent-Type: text/plain;a=,application/json\r\n\r\n"},
        {403, 403, "POST /echo HTTP/1.1\r\nHost: localhost\r\nX-Probing-Token: " TOKEN
                   "\r\nOrigin: http://evil.example\r\n\r\n"},
        {403, 403, "DELETE /open HTTP/1.1\r\nHost: localhost\r\nOrigin: http://a\r\n\r\n"},
        {200, 200, "GET /open HTTP/1.1\r\nHost: [::1]:99\r\n\r\n"},
        {403, 403, "GET /open HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n"},
        {403, 403, "GET /open HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n\r\n"},
        {403, 403, "GET /open HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\n\r\n"},
        {200, 200, "GET /open HTTP/1.1\r\nHost: localhost:9\r\nOrigin: http://localhost:9\r\n\r\n"},
        {403, 403, "POST /local HTTP/1.1\r\nHost: localhost\r\nX-Probing-Token: " TOKEN
                   "\r\nContent-Type: application/json\r\n\r\n"},
    };
    struct server t;
    int fd;

    (void)state;
    for (int no_token = 0; no_token < 2; no_token++) {
        start(&t, true, no_token);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            int want = no_token ? cases[i].status_without_token : cases[i].status;
            int got = status_of(&t, true, cases[i].text);

            if (got != want)
                fail_msg("%d, not %d: %s", got, want, cases[i].text);
        }
        fd = dial(&t, true);
        if (!no_token)
            assert_non_null(strstr(talk(fd, cases[0].text, NULL),
                                   "\r\nWWW-Authenticate: Bearer realm=\"probing\"\r\n"));
        close(fd);
        assert_int_equal(status_of(&t, false, "POST /local HTTP/1.1\r\nHost: x\r\n"
                                              "Content-Type: application/json\r\n\r\n"), 200);
        pb_server_destroy(t.s);
    }
}

/* A name that begins with this machine's may belong to a page that would have its answers. */
static void test_names(void **state)
{
    static const struct {
        const char *behind;
        int status;
    } cases[] = {{"", 200}, {":80", 200}, {".evil.example", 403}, {"x", 403}, {".", 403}};
    char name[64] = "", text[200];
    struct server t;

    (void)state;
    gethostname(name, sizeof name - 1);
    start(&t, true, true);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, "GET /fast HTTP/1.1\r\nHost: %s%s\r\n\r\n", name,
                 cases[i].behind);
        assert_int_equal(status_of(&t, true, text), cases[i].status);
    }
    pb_server_destroy(t.s);
}

static void test_streams(void **state)
{
    struct pb_http_request r = {.method = "GET", .path = "/long", .timeout_ms = 5000};
    struct pb_http_where where;
    struct pb_http_client *c;
    struct pb_err err = {0};
    struct server t;
    int status, fd;
    char *in;

    (void)state;
    start(&t, false, false);
    where = (struct pb_http_where){.socket = t.path};
    assert_int_equal(pb_http_connect(&c, &where, 1000, &err), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pb_http_ask(c, &r, NULL, NULL, &status, &err), 0);
        assert_string_equal(pb_http_answered(c, "Transfer-Encoding"), "chunked");
    }
    r.path = "/broken";
    assert_int_equal(pb_http_ask(c, &r, NULL, NULL, &status, &err), -1);
    assert_string_equal(err.msg, "the answer broke off after 6 bytes");
    pb_http_close(c);
    fd = dial(&t, false);
    in = talk(fd, "GET /broken HTTP/1.0\r\n\r\n", NULL);
    assert_null(strstr(in, "chunked"));
    assert_string_equal(in + strlen(in) - 6, "a part");
    close(fd);
    pb_server_destroy(t.s);
}

static void test_upgrade(void **state)
{
    struct server t;
    int fd;
    char *in;

    (void)state;
    start(&t, false, false);
    fd = dial(&t, false);
    in = talk(fd, "GET /mirror HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: mirror\r\n"
                  "\r\nearly", "early");
    assert_non_null(strstr(in, "HTTP/1.1 101 "));
    assert_string_equal(talk(fd, "later", "later"), "later");
    close(fd);
    pb_server_destroy(t.s);
}

static void test_owners(void **state)
{
    char bound[64], again[64], id[PB_PROCESS_ID_MAX], wanted[80];
    struct pb_err err = {0};
    struct server t;
    int active, listeners = 1, fd;
    struct pb_listen w;
    uint64_t last;
    pid_t child = fork();

    (void)state;
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pause();
        _exit(0);
    }
    snprintf(id, sizeof id, "%d-%llu", (int)child,
             (unsigned long long)pb_home_start_time(child));
    start(&t, false, false);
    w = (struct pb_listen){.address = "0", .owner = id, .token = TOKEN};
    assert_int_equal(pb_server_open(t.s, &w, bound, sizeof bound, &err), 0);
    w.address = strrchr(bound, ':');
    assert_int_equal(pb_server_open(t.s, &w, again, sizeof again, &err), 0);
    assert_string_equal(bound, again);
    w = (struct pb_listen){.address = bound, .no_token = true, .token = TOKEN};
    assert_int_equal(pb_server_open(t.s, &w, again, sizeof again, &err), -1);
    assert_non_null(strstr(err.msg, "is open already, with a token"));
    err = (struct pb_err){0};
    w = (struct pb_listen){.address = "0", .owner = "1-1", .token = TOKEN};
    assert_int_equal(pb_server_open(t.s, &w, again, sizeof again, &err), -1);
    assert_int_equal(err.code, PB_NO_TARGET);
    t.port = atoi(strrchr(bound, ':') + 1);
    fd = dial(&t, true);
    snprintf(wanted, sizeof wanted, "\r\n\r\n%s", id);
    assert_non_null(strstr(talk(fd, "GET /fast HTTP/1.1\r\nHost: localhost\r\nX-Probing-Token: "
                                    TOKEN "\r\n\r\n", id), wanted));
    close(fd);
    kill(child, SIGKILL);
    for (int i = 0; i < 500 && listeners; i++) {
        usleep(10000);
        pb_server_activity(t.s, &active, &last, &listeners);
    }
    assert_int_equal(listeners, 0);
    waitpid(child, NULL, 0);
    pb_server_destroy(t.s);
}

struct made {
    struct pb_token t;
    const char *secret;
};

static int put_token(struct pb_tokens *all, void *arg, struct pb_err *err)
{
    struct made *m = arg;

    (void)err;
    pb_sha256_text(m->secret, strlen(m->secret), m->t.hash);
    all->v[all->n++] = m->t;
    return 0;
}

static int drop_tokens(struct pb_tokens *all, void *arg, struct pb_err *err)
{
    (void)arg;
    (void)err;
    all->n = 0;
    return 0;
}

static int status_by(const struct server *t, const char *request, const char *secret)
{
    char text[400];

    snprintf(text, sizeof text, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
                                "\r\nAuthorization: Bearer %s\r\n\r\n", request, secret);
    return status_of(t, true, text);
}

/* Tokens with a name: what each may do, until when, and that a revoked one is none at once. */
static void test_scopes(void **state)
{
    struct made reader = {{.name = "reader", .right = PB_RIGHT_READ}, "secret-of-the-reader"};
    struct made looker = {{.name = "looker", .right = PB_RIGHT_LOOK}, "secret-of-the-looker"};
    struct made master = {{.name = "master", .right = PB_RIGHT_CONTROL}, "secret-of-the-master"};
    struct made late_one = {{.name = "late", .right = PB_RIGHT_CONTROL, .expires_s = 1000},
                            "secret-of-the-late"};
    struct made *const all[] = {&reader, &looker, &master, &late_one};
    char dir[64], command[80];
    struct server t;

    (void)state;
    snprintf(dir, sizeof dir, "/tmp/pb-scopes-%d", (int)getpid());
    setenv("XDG_CONFIG_HOME", dir, 1);
    start(&t, true, false);
    assert_int_equal(status_by(&t, "GET /fast", reader.secret), 401);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_int_equal(pb_tokens_change(put_token, all[i], NULL), 0);
    assert_int_equal(status_by(&t, "GET /fast", reader.secret), 200);
    assert_int_equal(status_by(&t, "POST /echo", reader.secret), 403);
    assert_int_equal(status_by(&t, "POST /echo", looker.secret), 403);
    assert_int_equal(status_by(&t, "POST /echo", master.secret), 200);
    assert_int_equal(status_by(&t, "GET /fast", late_one.secret), 401);
    assert_int_equal(status_by(&t, "POST /echo", TOKEN), 200);
    assert_int_equal(pb_tokens_change(drop_tokens, NULL, NULL), 0);
    assert_int_equal(status_by(&t, "GET /fast", reader.secret), 401);
    pb_server_destroy(t.s);
    unsetenv("XDG_CONFIG_HOME");
    snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

/* Each wrong token makes the next look at that address later; a right one waits like the others. */
static void test_guesses(void **state)
{
    struct pb_limits limits = pb_server_limits;
    uint64_t begin = pb_clock_ns();
    struct server t;

    (void)state;
    limits.guess = 50;
    limits.guess_max = 200;
    start_with(&t, &limits, true, false);
    for (int i = 0; i < PB_GUESSES_FREE + 1; i++)
        assert_int_equal(status_by(&t, "GET /fast", "wrong-secret"), 401);
    for (int i = 0; i < 3; i++)
        assert_int_equal(status_by(&t, "GET /fast", "wrong-secret"), 401);
    assert_true(pb_clock_ns() - begin > (50 + 100 + 200) * 1000000ull);
    assert_int_equal(status_of(&t, true, "GET /open HTTP/1.1\r\nHost: localhost\r\n\r\n"), 200);
    assert_int_equal(status_by(&t, "GET /fast", TOKEN), 200);
    assert_true(pb_clock_ns() - begin > (50 + 100 + 200 + 200) * 1000000ull);
    begin = pb_clock_ns();
    assert_int_equal(status_of(&t, false, "GET /fast HTTP/1.1\r\nHost: x\r\n\r\n"), 200);
    assert_int_equal(status_by(&t, "GET /fast", TOKEN), 200);
    assert_true(pb_clock_ns() - begin < 150 * 1000000ull);
    pb_server_destroy(t.s);
}

/* Two jobs, a token each, one port: neither reaches the other. */
static void test_two_jobs(void **state)
{
    struct pb_err err = {0};
    char ids[2][PB_PROCESS_ID_MAX], bound[64];
    struct server t;
    pid_t children[2];

    (void)state;
    start(&t, false, false);
    for (int i = 0; i < 2; i++) {
        struct pb_listen w = {.address = i ? bound : "0", .owner = ids[i],
                              .token = i ? "token-of-job-1" : "token-of-job-0"};

        children[i] = fork();
        if (children[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            pause();
            _exit(0);
        }
        snprintf(ids[i], sizeof ids[i], "%d-%llu", (int)children[i],
                 (unsigned long long)pb_home_start_time(children[i]));
        assert_int_equal(pb_server_open(t.s, &w, bound, sizeof bound, &err), 0);
    }
    t.port = atoi(strrchr(bound, ':') + 1);
    for (int i = 0; i < 2; i++) {
        char text[200], wanted[128];
        int fd = dial(&t, true);

        snprintf(text, sizeof text, "GET /fast HTTP/1.0\r\nHost: localhost\r\nX-Probing-Token: "
                                    "token-of-job-%d\r\n\r\n", i);
        snprintf(wanted, sizeof wanted, "\r\n\r\n%s", ids[i]);
        assert_string_equal(strstr(talk(fd, text, NULL), "\r\n\r\n"), wanted);
        close(fd);
        kill(children[i], SIGKILL);
        waitpid(children[i], NULL, 0);
    }
    pb_server_destroy(t.s);
}

static void test_one_node(void **state)
{
    struct pb_server *other;
    struct pb_err err = {0};
    struct server t;

    (void)state;
    start(&t, false, false);
    assert_int_equal(pb_server_create_with(&other, NULL, routes, &pb_server_limits, t.path,
                                           &err), -1);
    assert_non_null(strstr(err.msg, "a node is running already"));
    pb_server_destroy(t.s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_strangers), cmocka_unit_test(test_names),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_upgrade), cmocka_unit_test(test_owners),
        cmocka_unit_test(test_scopes), cmocka_unit_test(test_guesses),
        cmocka_unit_test(test_two_jobs), cmocka_unit_test(test_one_node),
    };

    return RUN_TESTS(tests);
}
