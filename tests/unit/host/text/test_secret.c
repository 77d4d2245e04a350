/* What may be shown of texts that hold secrets; and what is none and stays readable. */
#include "pb_test.h"

#include "host/text/secret.h"

#define LONG "0123456789abcdefghijABCDEFGHIJ"

static void texts(void **state)
{
    static const char *const cases[][2] = {
        /* Command lines. */
        {"train.py --bs 8 --lr 1e-4", NULL},
        {"train.py --password geheim --bs 8", "train.py --password *** --bs 8"},
        {"train.py --password=geheim", "train.py --password=***"},
        {"train.py --api-key 'ge heim' -v", "train.py --api-key '***' -v"},
        {"train.py --password --force", NULL},
        {"train.py --token-file /run/t --tokenizer gpt2 --max-tokens 512", NULL},
        {"train.py --pad-token x --num-key-value-heads 8 --key id", NULL},
        {"env WANDB_API_KEY=geheim python x", "env WANDB_API_KEY=*** python x"},
        {"curl -H 'Authorization: Bearer geheim' x", "curl -H 'Authorization: Bearer ***' x"},
        {"psql postgres://me:geheim@db:5432/x", "psql postgres://me:***@db:5432/x"},
        {"a http://u:p@h b http://u:q@h c", "a http://u:***@h b http://u:***@h c"},
        {"GET /x?token=geheim&n=1", "GET /x?token=***&n=1"},
        {"Server=db;User Id=sa;Password=geheim;Timeout=3",
         "Server=db;User Id=sa;Password=***;Timeout=3"},
        {"PWD=/data", NULL},
        {"--password $PASSWORD", NULL},
        /* Forms. */
        {"push ghp_" LONG " now", "push *** now"},
        {"x=hf_" LONG, "x=***"},
        {"hf_model_name_or_path=bert", NULL},
        {"sk-learn and scikit-image", NULL},
        {"OPENAI sk-proj-" LONG, "OPENAI ***"},
        {"AKIA0123456789ABCDEF", "***"},
        {"AKIAB", NULL},
        {"xoxb-12345678-abc", "***"},
        {"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_x tail", "*** tail"},
        {"eyJhbGciOiJIUzI1NiJ9abcdef", NULL},
        {"a\n-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nb", "a\n***\nb"},
        {"-----BEGIN PRIVATE KEY-----\nMII", "***"},
        {"-----BEGIN CERTIFICATE-----\nMII", NULL},
        /* Values as Python shows them. */
        {"{'user': 'me', 'password': 'ge\\'heim', 'n': 1}",
         "{'user': 'me', 'password': '***', 'n': 1}"},
        {"{\"apiKey\": \"geheim\"}", "{\"apiKey\": \"***\"}"},
        {"Client(token='geheim', retries=3)", "Client(token='***', retries=3)"},
        {"{'password': None, 'token': ''}", NULL},
        {"{'password': 'geh…", "{'password': '***"},
        {"Config(client_secret=b'geheim')", "Config(client_secret=b'***')"},
        {"{'token_ids': [1, 2], 'tokens': 'ab'}", NULL},
        {"std::token::value", NULL},
        {"", NULL},
    };
    struct pb_arena a = PB_ARENA_INIT;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(pb_secret_text(cases[i][0], &a), cases[i][cases[i][1] ? 1 : 0]);
    pb_arena_finish(&a);
}

static void words(void **state)
{
    static const char line[] = "python\0train.py\0--password\0ge heim\0--x\n"
                               "URL=http://a:b c@h\0-v\0";
    static const char title[] = "trainer: epoch 3 token=geheim";
    struct pb_arena a = PB_ARENA_INIT;

    (void)state;
    assert_string_equal(pb_secret_command(line, sizeof line - 1, "", &a),
                        "python train.py --password *** --x URL=http://a:b c@h -v");
    assert_string_equal(pb_secret_command(title, sizeof title, title, &a),
                        "trainer: epoch 3 token=***");
    assert_string_equal(pb_secret_command(NULL, 0, "[kthread]", &a), "[kthread]");
    assert_string_equal(pb_secret_argument("--password", "--force", &a), "--force");
    pb_arena_finish(&a);
}

static void environment(void **state)
{
    static const char *const cases[][3] = {
        {"HOME", "/data/me", "/data/me"},
        {"PWD", "/data", "/data"},
        {"HF_TOKEN", "abc", "***"},
        {"aws_secret_access_key", "abc", "***"},
        {"DB_PASSWORD", "", ""},
        {"MYSQL_PWD", "abc", "***"},
        {"GOOGLE_APPLICATION_CREDENTIALS", "/x.json", "***"},
        {"WANDB_API_KEY", "abc", "***"},
        {"TOKENIZERS_PARALLELISM", "false", "false"},
        {"WHATEVER", "ghp_0123456789", "***"},
        {"PROXY", "http://me:geheim@proxy:3128/", "http://me:***@proxy:3128/"},
        {"REDIS", "redis://:geheim@h:1/0", "redis://:***@h:1/0"},
        {"REDIS2", "redis://a:ge/heim@h:1", "redis://a:***@h:1"},
        {"URL", "https://host:8080/path@2x", "https://host:8080/path@2x"},
        {"GIT", "https://geheim@github.com/x", "https://***@github.com/x"},
        {"PLAIN", "a://b", "a://b"},
        {"OPTS", "--verbose --password geheim", "--verbose --password ***"},
        {"ODBC", "Driver=x;Pwd=geheim", "Driver=x;Pwd=***"},
    };
    struct pb_arena a = PB_ARENA_INIT;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(pb_secret_env(cases[i][0], cases[i][1], &a), cases[i][2]);
    pb_arena_finish(&a);
}

static void locals(void **state)
{
    static const char *const cases[][3] = {
        {"password", "'geheim'", "***"},
        {"api_key", "\"geheim\"", "***"},
        {"apiKey", "b'geheim'", "***"},
        {"token", "'geheim'", "***"},
        {"client_secret", "'geheim'", "***"},
        {"token", "50256", "50256"},
        {"token", "''", "''"},
        {"tokens", "'a b'", "'a b'"},
        {"pad_token", "'<pad>'", "'<pad>'"},
        {"key", "'layer.0.weight'", "'layer.0.weight'"},
        {"secret", "42", "42"},
        {"password", "None", "None"},
        {"config", "{'password': 'geheim'}", "{'password': '***'}"},
        {"url", "'redis://:geheim@h'", "'redis://:***@h'"},
        {"batch", "tensor of shape (8, 3)", "tensor of shape (8, 3)"},
    };
    struct pb_arena a = PB_ARENA_INIT;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(pb_secret_local(cases[i][0], cases[i][1], &a), cases[i][2]);
    pb_arena_finish(&a);
}

/* Whatever the bytes are, it ends, and a text without a secret is the text itself. */
static void any_bytes(void **state)
{
    static const char parts[] = "=:'\"\\/@-_ .,;&token--password://bghp_eyJ-----BEGIN ";
    unsigned seed = 1;
    char text[64];

    (void)state;
    for (int round = 0; round < 100000; round++) {
        struct pb_arena a = PB_ARENA_INIT;
        size_t len = 0;

        while (len < sizeof text - 1) {
            seed = seed * 1103515245u + 12345u;
            text[len++] = parts[(seed >> 16) % (sizeof parts - 1)];
        }
        text[len] = '\0';
        assert_true(strlen(pb_secret_text(text, &a)) <= 3 * sizeof text);
        pb_arena_finish(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts),
        cmocka_unit_test(words),
        cmocka_unit_test(environment),
        cmocka_unit_test(locals),
        cmocka_unit_test(any_bytes),
    };

    return RUN_TESTS(tests);
}
