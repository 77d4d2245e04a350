/*
 * Any text, as a command line, an environment value, a local variable, a media type or a line for a
 * terminal: what comes out is bounded, hidden things stay hidden, and no byte drives a terminal.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "host/net/http.h"
#include "host/text/secret.h"
#include "display/print.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap);

static const char *const seeds[] = {
    "train.py --password geheim --api-key='ge heim' --tokenizer gpt2",
    "postgres://me:geheim@db:5432/x?token=geheim&n=1",
    "{'user': 'me', 'password': 'ge\\'heim', \"apiKey\": b\"x\"}",
    "Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_x",
    "-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nghp_0123456789abcdef",
    "application/json; charset=\"utf-8\"; a=b",
    "\033[1;31mred\033[0m\r\n\xc2\x9b\xe2\x80\xae\xff",
};

size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap)
{
    size_t len;

    if (index < 0 || (size_t)index >= sizeof seeds / sizeof *seeds)
        return 0;
    len = strlen(seeds[index]);
    len = len < cap ? len : cap;
    memcpy(buf, seeds[index], len);
    return len;
}

static void check_terminal(const char *text, size_t len)
{
    struct pb_text_tail tail = {.len = 0};
    struct pb_buf whole = PB_BUF_INIT, pieces = PB_BUF_INIT;

    pb_text_stream(&tail, text, len, &whole);
    pb_text_stream(&tail, NULL, 0, &whole);
    for (size_t i = 0; i < len; i++)
        pb_text_stream(&tail, text + i, 1, &pieces);
    pb_text_stream(&tail, NULL, 0, &pieces);
    if (whole.len != pieces.len || (whole.len && memcmp(whole.data, pieces.data, whole.len) != 0))
        __builtin_trap();
    for (size_t i = 0; i < whole.len; i++)
        if (((unsigned char)whole.data[i] < 0x20 && !strchr("\n\t", whole.data[i])) ||
            whole.data[i] == 0x7f)
            __builtin_trap();
    pb_buf_finish(&whole);
    pb_buf_finish(&pieces);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pb_arena a = PB_ARENA_INIT;
    char *text = malloc(size + 1);

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    check_terminal(text, size);
    if (strlen(pb_secret_text(text, &a)) > 4 * size)
        __builtin_trap();
    pb_secret_env(text, text, &a);
    pb_secret_local(text, text, &a);
    pb_secret_argument(text, text, &a);
    pb_http_is_type(text, "application/json");
    pb_arena_finish(&a);
    free(text);
    return 0;
}
