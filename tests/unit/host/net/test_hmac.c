/* HMAC-SHA-256 against the vectors of RFC 4231. */
#include "pb_test.h"

#include "host/net/hmac.h"

static void vectors(void **state)
{
    unsigned char key[131], data[50];
    char out[PB_SHA256_TEXT];

    (void)state;
    memset(key, 0x0b, 20);
    pb_hmac_text(key, 20, "Hi There", 8, out);
    assert_string_equal(out, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    pb_hmac_text("Jefe", 4, "what do ya want for nothing?", 28, out);
    assert_string_equal(out, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    memset(data, 0xdd, sizeof data);
    pb_hmac_text(key, 20, data, sizeof data, out);
    assert_string_equal(out, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    pb_hmac_text(key, sizeof key, "Test Using Larger Than Block-Size Key - Hash Key First", 54,
                 out);
    assert_string_equal(out, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(vectors)};

    return RUN_TESTS(tests);
}
