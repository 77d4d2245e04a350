#include "node/tables/secret.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#define MASK "***"

/* Parts of names whose values nobody should see. */
static const char *const words[] = {
    "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "KEY", "CREDENTIAL", "AUTH", "COOKIE",
    "PRIVATE", "DSN",
};
/* Ends of names: PASS and PWD alone would hit PATH-like names and PWD itself. */
static const char *const ends[] = {"_PASS", "_PWD", "_PW", "_PAT"};
/* How well-known tokens begin, whatever they are called. */
static const char *const beginnings[] = {
    "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "hf_", "sk-", "xox", "AKIA", "ASIA", "eyJ",
    "-----BEGIN",
};

static bool has_word(const char *name)
{
    char upper[256];
    size_t len = strlen(name);

    if (len >= sizeof upper)
        return true;
    for (size_t i = 0; i <= len; i++)
        upper[i] = (char)toupper((unsigned char)name[i]);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(upper, words[i]))
            return true;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (len > strlen(ends[i]) && strcmp(upper + len - strlen(ends[i]), ends[i]) == 0)
            return true;
    return false;
}

/* "scheme://user:password@host": from the colon behind the user to the last @ of the host part. */
static const char *mask_url(const char *value, struct pb_arena *a)
{
    const char *start = strstr(value, "://"), *end, *at = NULL, *colon;

    if (!start)
        return value;
    start += 3;
    end = start + strcspn(start, "/?# \t\"'");
    for (const char *p = start; p < end; p++)
        if (*p == '@')
            at = p;
    colon = memchr(start, ':', (size_t)(end - start));
    /* A password may hold what ends a host elsewhere; a port is no password. */
    if (!at && colon && colon + 1 + strspn(colon + 1, "0123456789") < end)
        at = strrchr(end, '@');
    if (!at)
        return value;
    if (!colon || colon > at)
        return pb_arena_printf(a, "%.*s" MASK "%s", (int)(start - value), value, at);
    return pb_arena_printf(a, "%.*s:" MASK "%s", (int)(colon - value), value, at);
}

const char *pb_secret_mask(const char *name, const char *value, struct pb_arena *a)
{
    if (!*value)
        return value;
    if (has_word(name))
        return MASK;
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (strncmp(value, beginnings[i], strlen(beginnings[i])) == 0)
            return MASK;
    return mask_url(value, a);
}
