/* The agent is no layer that tests link to: its file is taken in. */
#include "pb_test.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/outbox.c"

struct pipe {
    struct pb_outbox o;
    int fds[2];
};

static int setup(void **state)
{
    struct pipe *p = calloc(1, sizeof *p);

    p->o.data = malloc(PB_OUTBOX);
    *state = p;
    return socketpair(AF_UNIX, SOCK_STREAM, 0, p->fds);
}

static int teardown(void **state)
{
    struct pipe *p = *state;

    free(p->o.data);
    close(p->fds[0]);
    close(p->fds[1]);
    free(p);
    return 0;
}

static void expect(struct pipe *p, const char *body)
{
    struct pb_wire_head h;
    char text[256];

    assert_int_equal(recv(p->fds[1], &h, sizeof h, MSG_WAITALL), sizeof h);
    assert_int_equal(h.len, strlen(body));
    assert_int_equal(recv(p->fds[1], text, h.len, MSG_WAITALL), h.len);
    assert_memory_equal(text, body, h.len);
}

/* Many small messages, some of which cross the end of the circle. */
static void round_and_round(void **state)
{
    struct pipe *p = *state;
    char text[100];

    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (size_t i = 0; i < 20000; i++) {
        char first = (char)('a' + i % 26);

        p->o.at = (i * 7919) % PB_OUTBOX;

        text[0] = first;
        assert_true(pb_outbox_put(&p->o, PB_WIRE_OUT, 1, text, 1, text + 1, 1 + i % 97, 0));
        assert_true(pb_outbox_send(&p->o, p->fds[0]));
        assert_int_equal(p->o.len, 0);
        text[2 + i % 97] = '\0';
        expect(p, text);
        text[2 + i % 97] = 'a';
        text[sizeof text - 1] = '\0';
    }
}

static void full_is_refused_whole(void **state)
{
    struct pipe *p = *state;
    static char big[PB_WIRE_PIECE];
    size_t before;
    int n = 0;

    while (pb_outbox_put(&p->o, PB_WIRE_OUT, 1, big, sizeof big, NULL, 0, PB_OUTBOX_RESERVE))
        n++;
    assert_int_equal(n, 3);
    before = p->o.len;
    assert_false(pb_outbox_put(&p->o, PB_WIRE_OUT, 1, big, sizeof big, NULL, 0,
                               PB_OUTBOX_RESERVE));
    assert_int_equal(p->o.len, before);
    assert_true(pb_outbox_put(&p->o, PB_WIRE_DONE, 1, "12345678", 8, NULL, 0, 0));
}

static void other_side_gone(void **state)
{
    struct pipe *p = *state;

    shutdown(p->fds[1], SHUT_RDWR);
    assert_true(pb_outbox_put(&p->o, PB_WIRE_OUT, 1, "x", 1, NULL, 0, 0));
    assert_false(pb_outbox_send(&p->o, p->fds[0]));
}

static void without_memory(void **state)
{
    struct pb_outbox none = {0};

    (void)state;
    assert_false(pb_outbox_put(&none, PB_WIRE_OUT, 1, "x", 1, NULL, 0, 0));
    assert_true(pb_outbox_send(&none, -1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(round_and_round, setup, teardown),
        cmocka_unit_test_setup_teardown(full_is_refused_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(other_side_gone, setup, teardown),
        cmocka_unit_test(without_memory),
    };

    return RUN_TESTS(tests);
}
