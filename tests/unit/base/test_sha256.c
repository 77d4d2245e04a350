/* Vectors of FIPS 180-4 and its companions; the same in pieces of every size. */
#include "pb_test.h"

#include <stdio.h>

#include "base/sha256.h"

static const struct {
    const char *text, *hash;
} vectors[] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmno"
     "ijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
     "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
};

static void known(void **state)
{
    char hash[PB_SHA256_TEXT];

    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        pb_sha256_text(vectors[i].text, strlen(vectors[i].text), hash);
        assert_string_equal(hash, vectors[i].hash);
    }
}

static void million(void **state)
{
    static const unsigned char want[] = {0xcd, 0xc7, 0x6e, 0x5c, 0x99, 0x14, 0xfb, 0x92};
    unsigned char got[PB_SHA256_BYTES];
    struct pb_sha256 h;

    (void)state;
    pb_sha256_init(&h);
    for (int i = 0; i < 1000000; i++)
        pb_sha256_add(&h, "a", 1);
    pb_sha256_finish(&h, got);
    assert_memory_equal(got, want, sizeof want);
}

/* Every length around the edges of a block, in two pieces. */
static void pieces(void **state)
{
    char text[200], whole[PB_SHA256_TEXT];
    unsigned char bytes[PB_SHA256_BYTES];
    struct pb_sha256 h;

    (void)state;
    memset(text, 'x', sizeof text);
    for (size_t len = 50; len < sizeof text; len++) {
        pb_sha256_text(text, len, whole);
        pb_sha256_init(&h);
        pb_sha256_add(&h, text, len / 3);
        pb_sha256_add(&h, text + len / 3, len - len / 3);
        pb_sha256_finish(&h, bytes);
        for (int i = 0; i < PB_SHA256_BYTES; i++) {
            char two[3];

            snprintf(two, sizeof two, "%02x", bytes[i]);
            assert_memory_equal(whole + 2 * i, two, 2);
        }
    }
}

static void comparing(void **state)
{
    char other[PB_SHA256_TEXT];

    (void)state;
    assert_true(pb_sha256_same(vectors[0].hash, vectors[0].hash));
    for (size_t i = 0; i < PB_SHA256_TEXT - 1; i++) {
        strcpy(other, vectors[0].hash);
        other[i] ^= 1;
        assert_false(pb_sha256_same(vectors[0].hash, other));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known),
        cmocka_unit_test(million),
        cmocka_unit_test(pieces),
        cmocka_unit_test(comparing),
    };

    return RUN_TESTS(tests);
}
