#include "pb_test.h"

#include "base/wire.h"

static struct pb_wire_head head(enum pb_wire_type type, uint32_t len)
{
    return (struct pb_wire_head){.magic = PB_WIRE_MAGIC, .type = (uint16_t)type, .id = 3,
                                 .len = len};
}

/* Feeds one head in a piece; what the reader makes of it. */
static enum pb_wire_step feed(struct pb_wire_head h, bool from_tool)
{
    struct pb_wire_in in = {0};
    size_t len;
    void *to = pb_wire_buffer(&in, &len);

    assert_int_equal(len, sizeof h);
    memcpy(to, &h, sizeof h);
    return pb_wire_received(&in, sizeof h, from_tool);
}

static void byte_by_byte(void **state)
{
    unsigned char stream[sizeof(struct pb_wire_head) + 5], body[5];
    struct pb_wire_head h = head(PB_WIRE_CONFIG, 5);
    struct pb_wire_in in = {0};

    (void)state;
    memcpy(stream, &h, sizeof h);
    memcpy(stream + sizeof h, "a=b=c", 5);
    for (size_t i = 0; i < sizeof stream; i++) {
        size_t len;
        unsigned char *to = pb_wire_buffer(&in, &len);
        enum pb_wire_step step;

        assert_true(len > 0);
        *to = stream[i];
        step = pb_wire_received(&in, 1, true);
        if (i + 1 == sizeof h) {
            assert_int_equal(step, PB_WIRE_BODY);
            in.body = body;
        } else {
            assert_int_equal(step, i + 1 == sizeof stream ? PB_WIRE_MESSAGE : PB_WIRE_MORE_BYTES);
        }
    }
    assert_memory_equal(body, "a=b=c", 5);
    pb_wire_next(&in);
    assert_int_equal(in.got, 0);
}

static void limits(void **state)
{
    struct pb_wire_head h;

    (void)state;
    assert_int_equal(feed(head(PB_WIRE_STATUS, 0), true), PB_WIRE_MESSAGE);
    assert_int_equal(feed(head(PB_WIRE_STATUS, 1), true), PB_WIRE_BAD);
    assert_int_equal(feed(head(PB_WIRE_STATUS, 0), false), PB_WIRE_BAD);
    assert_int_equal(feed(head(PB_WIRE_EVAL, 15), true), PB_WIRE_BAD);
    assert_int_equal(feed(head(PB_WIRE_EVAL, 16), true), PB_WIRE_BODY);
    assert_int_equal(feed(head(PB_WIRE_EVAL, PB_WIRE_MAX), true), PB_WIRE_BODY);
    assert_int_equal(feed(head(PB_WIRE_EVAL, PB_WIRE_MAX + 1), true), PB_WIRE_BAD);
    assert_int_equal(feed(head(PB_WIRE_OUT, PB_WIRE_PIECE + 1), false), PB_WIRE_BAD);
    assert_int_equal(feed(head(PB_WIRE_DONE, 7), false), PB_WIRE_BAD);
    assert_int_equal(feed(head(PB_WIRE_DONE, 8), false), PB_WIRE_BODY);
    h = head(PB_WIRE_STATUS, 0);
    h.magic++;
    assert_int_equal(feed(h, true), PB_WIRE_BAD);
    h = head(PB_WIRE_STATUS, 0);
    h.flags = 1;
    assert_int_equal(feed(h, true), PB_WIRE_BAD);
    assert_int_equal(feed(head((enum pb_wire_type)77, 0), true), PB_WIRE_BAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(byte_by_byte),
        cmocka_unit_test(limits),
    };

    return RUN_TESTS(tests);
}
