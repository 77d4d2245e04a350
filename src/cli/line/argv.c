#include "cli/line/argv.h"

#include <string.h>

#include "host/text/buf.h"

const char *pb_argv_quote(struct pb_arena *a, char **argv)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./:=,@%+";
    struct pb_buf b = PB_BUF_INIT;
    char *copy;

    pb_buf_puts(&b, "probing");
    for (; *argv; argv++) {
        const char *w = *argv;

        if (strcmp(w, "--token") == 0 && argv[1])
            argv++;
        if (w != *argv || strncmp(w, "--token=", 8) == 0)
            w = "--token=***";
        pb_buf_putc(&b, ' ');
        if (*w && !w[strspn(w, plain)]) {
            pb_buf_puts(&b, w);
            continue;
        }
        pb_buf_putc(&b, '\'');
        for (; *w; w++) {
            if (*w == '\'')
                pb_buf_puts(&b, "'\\''");
            else
                pb_buf_putc(&b, *w);
        }
        pb_buf_putc(&b, '\'');
    }
    copy = pb_arena_strdup(a, b.data);
    pb_buf_finish(&b);
    return copy;
}

void pb_argv_hide_tokens(struct pb_arena *a, char **argv)
{
    for (; *argv; argv++) {
        char *word = *argv, *secret = NULL;

        if (strcmp(word, "--") == 0)
            return;
        if (strncmp(word, "--token=", 8) == 0)
            secret = word + 8;
        else if (strcmp(word, "--token") == 0 && argv[1])
            secret = *++argv;
        if (!secret || !*secret)
            continue;
        *argv = pb_arena_strdup(a, *argv);
        memset(secret, '*', strlen(secret));
    }
}
