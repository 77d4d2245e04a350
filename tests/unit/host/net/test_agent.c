/* The client against a made-up agent: what it accepts, and when it gives up. */
#include "pb_test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/home.h"
#include "host/net/agent_socket.h"
#include "host/text/buf.h"

struct peer {
    pid_t pid;
    struct pb_agent agent;
};

static void put(int fd, enum pb_wire_type type, uint32_t id, const void *body, size_t len)
{
    struct pb_wire_head h = {.magic = PB_WIRE_MAGIC, .type = (uint16_t)type, .id = id,
                             .len = (uint32_t)len};

    if (write(fd, &h, sizeof h) != sizeof h || write(fd, body, len) != (ssize_t)len)
        _exit(1);
}

static uint32_t take(int fd)
{
    struct pb_wire_head h;
    char body[4096];

    if (read(fd, &h, sizeof h) != sizeof h ||
        (h.len && recv(fd, body, h.len, MSG_WAITALL) != (ssize_t)h.len))
        _exit(1);
    return h.id;
}

/* A child that listens where an agent would, and then behaves as script says. */
static pid_t start_peer(void (*script)(int fd))
{
    int ready[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        char home[PB_HOME_MAX];

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(pb_home_create(home, pb_home_roots[0], geteuid(), getpid(), pb_home_start_time(0)));
        snprintf(at.sun_path, sizeof at.sun_path, "%s/" PB_HOME_SOCKET, home);
        if (bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 4) < 0 ||
            write(ready[1], "r", 1) != 1)
            _exit(1);
        fd = accept(fd, NULL, NULL);
        script(fd);
        pb_home_remove(home);
        pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void end_peer(pid_t pid)
{
    char home[PB_HOME_MAX];

    pb_home_path(home, pb_home_roots[0], geteuid(), pid, pb_home_start_time(pid));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    pb_home_remove(home);
}

static void say_hello(int fd)
{
    put(fd, PB_WIRE_HELLO, 0, "agent=1\npython=3.9.9\n", 21);
}

static void answer_well(int fd)
{
    struct pb_wire_done done = {.result = PB_WIRE_EXCEPTION};
    char with_why[sizeof done + 3];
    uint32_t id;

    say_hello(fd);
    id = take(fd);
    put(fd, PB_WIRE_OUT, id + 100, "other", 5); /* not ours: left out */
    put(fd, PB_WIRE_OUT, id, "out", 3);
    put(fd, PB_WIRE_ERR, id, "err", 3);
    memcpy(with_why, &done, sizeof done);
    memcpy(with_why + sizeof done, "why", 3);
    put(fd, PB_WIRE_DONE, id, with_why, sizeof with_why);
}

static void collect(int fd, const void *data, size_t len, void *arg)
{
    struct pb_buf *b = arg;

    pb_buf_printf(b, "%d:", fd);
    pb_buf_add(b, data, len);
}

static int ask(struct pb_agent *a, int timeout_ms, struct pb_buf *out, struct pb_arena *arena,
               enum pb_wire_result *result, const char **why, struct pb_err *err)
{
    return pb_agent_ask(a, PB_WIRE_STATUS, NULL, 0, NULL, 0, timeout_ms, collect, out, arena,
                        result, why, err);
}

static void question_and_answer(void **state)
{
    struct pb_arena arena = PB_ARENA_INIT;
    struct pb_buf out = PB_BUF_INIT;
    enum pb_wire_result result;
    struct pb_err err = {0};
    struct pb_agent a;
    const char *why;
    pid_t pid = start_peer(answer_well);

    (void)state;
    assert_int_equal(pb_agent_open(&a, pid, 2000, &err), 0);
    assert_string_equal(pb_agent_value(a.hello, "python", &arena), "3.9.9");
    assert_null(pb_agent_value(a.hello, "pyth", &arena));
    assert_int_equal(ask(&a, 2000, &out, &arena, &result, &why, &err), 0);
    assert_int_equal(result, PB_WIRE_EXCEPTION);
    assert_string_equal(why, "why");
    assert_string_equal(out.data, "1:out2:err");
    pb_agent_close(&a);
    pb_buf_finish(&out);
    pb_arena_finish(&arena);
    end_peer(pid);
}

static void silence(int fd)
{
    say_hello(fd);
    take(fd);
    pause();
}

static void every_wait_ends(void **state)
{
    struct pb_arena arena = PB_ARENA_INIT;
    enum pb_wire_result result;
    struct pb_err err = {0};
    struct pb_agent a;
    const char *why;
    pid_t pid = start_peer(silence);
    uint64_t began;

    (void)state;
    assert_int_equal(pb_agent_open(&a, pid, 2000, &err), 0);
    began = pb_clock_ns();
    assert_int_equal(ask(&a, 100, NULL, &arena, &result, &why, &err), -1);
    assert_int_equal(err.code, PB_TIMEOUT);
    assert_true(pb_clock_ns() - began < 20000000000ull);
    pb_agent_close(&a);
    end_peer(pid);
}

/* Piece after piece, without an end. */
static void talk_on(int fd)
{
    static char piece[PB_WIRE_PIECE];
    uint32_t id;

    say_hello(fd);
    id = take(fd);
    for (;;)
        put(fd, PB_WIRE_OUT, id, piece, sizeof piece);
}

static void count(int fd, const void *data, size_t len, void *arg)
{
    (void)fd;
    (void)data;
    *(uint64_t *)arg += len;
}

static void who_talks_on_is_not_listened_to(void **state)
{
    struct pb_arena arena = PB_ARENA_INIT;
    enum pb_wire_result result;
    struct pb_err err = {0};
    struct pb_agent a;
    uint64_t began, said = 0;
    const char *why;
    pid_t pid = start_peer(talk_on);

    (void)state;
    assert_int_equal(pb_agent_open(&a, pid, 2000, &err), 0);
    assert_int_equal(pb_agent_ask(&a, PB_WIRE_CONFIG, NULL, 0, NULL, 0, 60000, count, &said,
                                  &arena, &result, &why, &err),
                     -1);
    assert_string_equal(err.msg, "the agent says too much");
    assert_in_range(said, 1, PB_AGENT_ANSWER_MAX);
    pb_agent_close(&a);
    end_peer(pid);

    /* What code prints has no such limit, but its time is over all the same. */
    pid = start_peer(talk_on);
    err = (struct pb_err){0};
    assert_int_equal(pb_agent_open(&a, pid, 2000, &err), 0);
    began = pb_clock_ns();
    assert_int_equal(pb_agent_ask(&a, PB_WIRE_EVAL, &(struct pb_wire_eval){0},
                                  sizeof(struct pb_wire_eval), "", 0, 200, count, &said, &arena,
                                  &result, &why, &err),
                     -1);
    assert_int_equal(err.code, PB_TIMEOUT);
    assert_true(pb_clock_ns() - began < 20000000000ull);
    pb_agent_close(&a);
    pb_arena_finish(&arena);
    end_peer(pid);
}

/* It says how long its evaluations take; a stranger's may say anything. */
static void times_that_cannot_be(void **state)
{
    static const struct {
        const char *hello;
        int ms;
    } cases[] = {
        {"pid=1\n", 30000},           {"\ntimeout_ms=60000\n", 60000},
        {"\ntimeout_ms=-6000\n", 30000}, {"\ntimeout_ms=0\n", 30000},
        {"\ntimeout_ms=2147483647\n", 30000},
        {"\ntimeout_ms=99999999999999999999\n", 30000},
        {"\ntimeout_ms=\n", 30000},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pb_agent a = {.fd = -1};

        snprintf(a.hello, sizeof a.hello, "%s", cases[i].hello);
        assert_int_equal(pb_agent_eval_ms(&a), cases[i].ms);
    }
}

static void say_nothing(int fd)
{
    (void)fd;
    pause();
}

static void no_hello(void **state)
{
    struct pb_err err = {0};
    struct pb_agent a;
    pid_t pid = start_peer(say_nothing);

    (void)state;
    assert_int_equal(pb_agent_open(&a, pid, 100, &err), -1);
    assert_int_equal(err.code, PB_TIMEOUT);
    assert_int_equal(a.fd, -1);
    end_peer(pid);
}

static void talk_nonsense(int fd)
{
    say_hello(fd);
    take(fd);
    if (write(fd, "HTTP/1.1 200 OK\r\n\r\n", 19) != 19)
        _exit(1);
}

static void nonsense_is_refused(void **state)
{
    struct pb_arena arena = PB_ARENA_INIT;
    enum pb_wire_result result;
    struct pb_err err = {0};
    struct pb_agent a;
    const char *why;
    pid_t pid = start_peer(talk_nonsense);

    (void)state;
    assert_int_equal(pb_agent_open(&a, pid, 2000, &err), 0);
    assert_int_equal(ask(&a, 2000, NULL, &arena, &result, &why, &err), -1);
    assert_string_equal(err.msg, "the agent speaks another protocol");
    pb_agent_close(&a);
    end_peer(pid);
}

static void hang_up(int fd)
{
    say_hello(fd);
    take(fd);
    close(fd);
}

static void a_process_that_ends(void **state)
{
    struct pb_arena arena = PB_ARENA_INIT;
    enum pb_wire_result result;
    struct pb_err err = {0};
    struct pb_agent a;
    const char *why;
    pid_t pid = start_peer(hang_up);

    (void)state;
    assert_int_equal(pb_agent_open(&a, pid, 2000, &err), 0);
    assert_int_equal(ask(&a, 2000, NULL, &arena, &result, &why, &err), -1);
    assert_string_equal(err.msg, "the agent closed the connection");
    pb_agent_close(&a);
    pb_agent_close(&a);
    end_peer(pid);
}

static void without_an_agent(void **state)
{
    struct pb_err err = {0};
    struct pb_agent a;

    (void)state;
    assert_false(pb_agent_present(getpid()));
    assert_int_equal(pb_agent_open(&a, getpid(), 100, &err), -1);
    assert_int_equal(err.code, PB_NO_TARGET);
}

/* A child puts its socket where this process's agent would be. */
static void an_impostor_is_refused(void **state)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct pb_err err = {0};
    char home[PB_HOME_MAX];
    struct pb_agent a;
    int ready[2];
    char byte;
    pid_t pid;

    (void)state;
    close(pb_home_create(home, pb_home_roots[0], geteuid(), getpid(), pb_home_start_time(0)));
    snprintf(at.sun_path, sizeof at.sun_path, "%s/" PB_HOME_SOCKET, home);
    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 4) < 0 ||
            write(ready[1], "r", 1) != 1)
            _exit(1);
        pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(pb_agent_open(&a, getpid(), 500, &err), -1);
    assert_int_equal(err.code, PB_DENIED);
    assert_false(pb_agent_present(getpid()));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    pb_home_remove(home);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(question_and_answer), cmocka_unit_test(every_wait_ends),
        cmocka_unit_test(no_hello),            cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(a_process_that_ends), cmocka_unit_test(without_an_agent),
        cmocka_unit_test(an_impostor_is_refused),
        cmocka_unit_test(who_talks_on_is_not_listened_to),
        cmocka_unit_test(times_that_cannot_be),
    };

    return RUN_TESTS(tests);
}
