#include "pb_test.h"

#include "cli/lineedit.h"

#define CTRL(c) ((c) & 31)

static char *lines[] = {(char *)"first", (char *)"second"};
static const struct pb_lineedit history = {.history = lines, .count = 2};

static void type(struct pb_edit *e, const char *text)
{
    while (*text)
        assert_int_equal(pb_edit_key(e, (unsigned char)*text++), PB_EDIT_GO_ON);
}

static void inserting_and_moving(void **state)
{
    struct pb_edit e = {.of = &history, .from = 2};

    (void)state;
    type(&e, "ac");
    pb_edit_key(&e, PB_KEY_LEFT);
    type(&e, "b");
    assert_string_equal(e.text.data, "abc");
    pb_edit_key(&e, PB_KEY_HOME);
    pb_edit_key(&e, PB_KEY_LEFT);
    pb_edit_key(&e, PB_KEY_DELETE);
    assert_string_equal(e.text.data, "bc");
    pb_edit_key(&e, PB_KEY_END);
    pb_edit_key(&e, PB_KEY_RIGHT);
    pb_edit_key(&e, 127);
    assert_string_equal(e.text.data, "b");
    assert_int_equal(pb_edit_key(&e, '\r'), PB_EDIT_DONE);
    pb_edit_finish(&e);
}

static void characters_of_several_bytes(void **state)
{
    struct pb_edit e = {.of = &history, .from = 2};

    (void)state;
    pb_edit_key(&e, 0xe9);
    pb_edit_key(&e, 0x20ac);
    pb_edit_key(&e, 0x1f600);
    assert_string_equal(e.text.data, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    pb_edit_key(&e, PB_KEY_LEFT);
    pb_edit_key(&e, 127);
    assert_string_equal(e.text.data, "\xc3\xa9\xf0\x9f\x98\x80");
    assert_int_equal(e.at, 2);
    pb_edit_key(&e, PB_KEY_DELETE);
    assert_string_equal(e.text.data, "\xc3\xa9");
    pb_edit_finish(&e);
}

static void cutting_and_pasting(void **state)
{
    struct pb_edit e = {.of = &history, .from = 2};

    (void)state;
    type(&e, "one two.three");
    pb_edit_key(&e, CTRL('W'));
    assert_string_equal(e.text.data, "one two.");
    pb_edit_key(&e, CTRL('Y'));
    assert_string_equal(e.text.data, "one two.three");
    pb_edit_key(&e, PB_KEY_WORD_LEFT);
    pb_edit_key(&e, PB_KEY_WORD_LEFT);
    pb_edit_key(&e, CTRL('K'));
    assert_string_equal(e.text.data, "one ");
    pb_edit_key(&e, CTRL('U'));
    assert_string_equal(e.text.data, "");
    pb_edit_key(&e, CTRL('W'));
    pb_edit_key(&e, CTRL('K'));
    pb_edit_finish(&e);
}

static void through_the_history(void **state)
{
    struct pb_edit e = {.of = &history, .from = 2};

    (void)state;
    type(&e, "new");
    pb_edit_key(&e, PB_KEY_UP);
    assert_string_equal(e.text.data, "second");
    pb_edit_key(&e, PB_KEY_UP);
    pb_edit_key(&e, PB_KEY_UP);
    assert_string_equal(e.text.data, "first");
    pb_edit_key(&e, PB_KEY_DOWN);
    pb_edit_key(&e, PB_KEY_DOWN);
    pb_edit_key(&e, PB_KEY_DOWN);
    assert_string_equal(e.text.data, "new");
    pb_edit_finish(&e);
}

static void ends_of_a_line(void **state)
{
    struct pb_edit e = {.of = &history, .from = 2};

    (void)state;
    assert_int_equal(pb_edit_key(&e, CTRL('D')), PB_EDIT_EOF);
    assert_int_equal(pb_edit_key(&e, CTRL('C')), PB_EDIT_CANCEL);
    assert_int_equal(pb_edit_key(&e, '\t'), PB_EDIT_TAB);
    assert_int_equal(pb_edit_key(&e, CTRL('L')), PB_EDIT_CLEAR);
    type(&e, "x");
    pb_edit_key(&e, PB_KEY_HOME);
    assert_int_equal(pb_edit_key(&e, CTRL('D')), PB_EDIT_GO_ON);
    assert_string_equal(e.text.data, "");
    assert_int_equal(pb_edit_key(&e, PB_KEY_NONE), PB_EDIT_GO_ON);
    assert_int_equal(pb_edit_key(&e, 1), PB_EDIT_GO_ON);
    pb_edit_finish(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inserting_and_moving), cmocka_unit_test(characters_of_several_bytes),
        cmocka_unit_test(cutting_and_pasting),  cmocka_unit_test(through_the_history),
        cmocka_unit_test(ends_of_a_line),
    };

    return RUN_TESTS(tests);
}
