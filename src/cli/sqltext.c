#include "cli/sqltext.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "display/print.h"

#define INDENT "  "

/* Blanks, comments and brackets in front of the first word. */
static const char *skip_lead(const char *s)
{
    for (;;) {
        s += strspn(s, " \t\r\n(;");
        if (strncmp(s, "--", 2) == 0) {
            s += strcspn(s, "\n");
        } else if (strncmp(s, "/*", 2) == 0) {
            const char *end = strstr(s + 2, "*/");

            s = end ? end + 2 : s + strlen(s);
        } else {
            return s;
        }
    }
}

bool pb_sqltext_looks(const char *word)
{
    static const char *const words[] = {"select",  "with",   "show",      "describe", "desc",
                                        "explain", "values", "set",       "from",     "reset",
                                        "pivot",   "unpivot", "summarize", "call",     "pragma"};
    const char *s = skip_lead(word);
    size_t len = 0;

    while (isalpha((unsigned char)s[len]))
        len++;
    if (!len || isalnum((unsigned char)s[len]) || !s[len + strspn(s + len, " \t\r\n;")])
        return false;
    if (!strchr(" \t\r\n(*'\"", s[len]))
        return false; /* "from.py", "select-model" */
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == len && strncasecmp(words[i], s, len) == 0)
            return true;
    return false;
}

const char *pb_sqltext_caret(struct pb_arena *a, const char *sql, long at, size_t width)
{
    size_t len = strlen(sql), room = width > 8 ? width - 4 : 0;
    const char *begin, *line, *before;
    size_t column;

    if (at < 0 || (size_t)at > len)
        return NULL;
    begin = sql + at;
    while (begin > sql && begin[-1] != '\n')
        begin--;
    before = pb_text_clean(a, pb_arena_strndup(a, begin, (size_t)(sql + at - begin)));
    line = pb_text_clean(a, pb_arena_strndup(a, begin, strcspn(begin, "\n")));
    column = pb_text_width(before);
    if (room && pb_text_width(line) > room && column > room / 2) {
        /* The caret moves to the middle. */
        size_t cut = column - room / 2;
        const char *s = line;

        while (*s && pb_text_width(line) - pb_text_width(s) < cut)
            s += pb_utf8_len(s) ? pb_utf8_len(s) : 1;
        column = column - (pb_text_width(line) - pb_text_width(s)) + 1;
        line = pb_arena_printf(a, "…%s", s);
    }
    if (room)
        line = pb_text_end(a, line, room);
    return pb_arena_printf(a, INDENT "%s\n" INDENT "%*s^\n", line, (int)column, "");
}
