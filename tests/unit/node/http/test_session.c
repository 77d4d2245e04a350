/* Sessions of browsers: both halves are needed, for one host, one key, until their end. */
#include "pb_test.h"

#include <stdio.h>

#include "node/http/session.h"

#define KEY "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER_KEY "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define HASH "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define HOST "127.0.0.1:7720"

static const struct pb_session made = {
    .hash = HASH, .right = PB_RIGHT_LOOK, .expires_s = 1000, .nonce = "00ff00ff00ff00ff"};

struct halves {
    char name[PB_SESSION_NAME_MAX], cookie[PB_SESSION_COOKIE_MAX], page[PB_SHA256_TEXT];
    char header[PB_SESSION_COOKIE_MAX + 100];
};

static void make(struct halves *h)
{
    pb_session_name(HOST, h->name);
    pb_session_make(KEY, HOST, &made, h->cookie, h->page);
    snprintf(h->header, sizeof h->header, "other=1; %s=%s; last=2", h->name, h->cookie);
}

static void read_back(void **state)
{
    struct pb_session s;
    struct halves h;

    (void)state;
    make(&h);
    assert_true(pb_session_read(KEY, HOST, h.header, h.page, 999, &s));
    assert_string_equal(s.hash, HASH);
    assert_int_equal(s.right, PB_RIGHT_LOOK);
    assert_int_equal(s.expires_s, 1000);
    /* The token's hash is not to be read from it. */
    assert_null(strstr(h.cookie, HASH));
    assert_null(strstr(h.cookie, "00112233"));
}

static void refused(void **state)
{
    struct pb_session s;
    struct halves h;
    char text[sizeof h.header];

    (void)state;
    make(&h);
    assert_false(pb_session_read(KEY, HOST, h.header, NULL, 999, &s));
    assert_false(pb_session_read(KEY, HOST, h.header, "", 999, &s));
    assert_false(pb_session_read(KEY, HOST, NULL, h.page, 999, &s));
    assert_false(pb_session_read(KEY, HOST, "", h.page, 999, &s));
    assert_false(pb_session_read(KEY, NULL, h.header, h.page, 999, &s));
    assert_false(pb_session_read(KEY, HOST, h.header, h.page, 1000, &s));
    assert_false(pb_session_read(OTHER_KEY, HOST, h.header, h.page, 999, &s));
    assert_false(pb_session_read(KEY, "evil.example:7720", h.header, h.page, 999, &s));
    /* The cookie's own mark is not the page's. */
    assert_false(pb_session_read(KEY, HOST, h.header, strrchr(h.cookie, '.') + 1, 999, &s));
    /* Under the name that another host's has. */
    snprintf(text, sizeof text, "%s=%s", "probing-000000000000", h.cookie);
    assert_false(pb_session_read(KEY, HOST, text, h.page, 999, &s));
}

/* Whichever byte is changed, it is no session any more. */
static void tampered(void **state)
{
    struct pb_session s;
    struct halves h;
    char text[sizeof h.header];
    size_t len;

    (void)state;
    make(&h);
    len = strlen(h.cookie);
    for (size_t i = 0; i < len; i++) {
        char was = h.cookie[i];

        h.cookie[i] = was == '2' ? '1' : '2';
        snprintf(text, sizeof text, "%s=%s", h.name, h.cookie);
        assert_false(pb_session_read(KEY, HOST, text, h.page, 999, &s));
        snprintf(text, sizeof text, "%s=%.*s", h.name, (int)i, h.cookie);
        assert_false(pb_session_read(KEY, HOST, text, h.page, 999, &s));
        h.cookie[i] = was;
    }
}

static void tickets(void **state)
{
    struct pb_tickets t;
    struct pb_session s;
    char first[PB_TOKEN_MAX], code[PB_TOKEN_MAX];

    (void)state;
    pb_tickets_init(&t);
    assert_int_equal(pb_tickets_add(&t, HASH, PB_RIGHT_READ, 5, first, NULL), 0);
    assert_false(pb_tickets_use(&t, "", 6, &s));
    assert_false(pb_tickets_use(&t, HASH, 6, &s));
    assert_true(pb_tickets_use(&t, first, 6, &s));
    assert_string_equal(s.hash, HASH);
    assert_int_equal(s.right, PB_RIGHT_READ);
    assert_false(pb_tickets_use(&t, first, 6, &s)); /* once */
    assert_int_equal(pb_tickets_add(&t, HASH, PB_RIGHT_READ, 5, code, NULL), 0);
    assert_false(pb_tickets_use(&t, code, 5 + PB_TICKET_S * 1000000000ull, &s)); /* too late */
    /* There is room for the newest; the oldest gives way. */
    assert_int_equal(pb_tickets_add(&t, HASH, PB_RIGHT_READ, 7, first, NULL), 0);
    for (int i = 0; i < PB_TICKETS; i++)
        assert_int_equal(pb_tickets_add(&t, HASH, PB_RIGHT_READ, 8 + (uint64_t)i, code, NULL), 0);
    assert_false(pb_tickets_use(&t, first, 100, &s));
    assert_true(pb_tickets_use(&t, code, 100, &s));
    pb_tickets_finish(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_back), cmocka_unit_test(refused), cmocka_unit_test(tampered),
        cmocka_unit_test(tickets),
    };

    return RUN_TESTS(tests);
}
