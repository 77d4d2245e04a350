#include "node/http/caller.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define NS_PER_MS 1000000ull
/* A failure is forgotten when none followed for so long. */
#define FORGET_NS (60000 * NS_PER_MS)

void pb_callers_finish(struct pb_callers *s)
{
    pb_arena_finish(&s->arena);
}

/* From the user's own token, so that sessions end with it; where there is none, a random one. */
static void make_page_key(struct pb_callers *s, const char *own)
{
    static const char what[] = "key of the page's sessions\n";
    char text[sizeof what + PB_TOKEN_MAX];

    if (!own && s->page_key[0] && !s->has_own)
        return;
    snprintf(text, sizeof text, "%s%s", what, own ? own : "");
    if (!own && pb_token_make(text + sizeof what - 1, NULL) < 0)
        return;
    pb_sha256_text(text, strlen(text), s->page_key);
    explicit_bzero(text, sizeof text);
}

/* Files that cannot be read hold no tokens. */
static void refresh(struct pb_callers *s)
{
    uint64_t stamp = pb_tokens_stamp();
    char own[PB_TOKEN_MAX];

    if (s->stamp && stamp == s->stamp)
        return;
    s->stamp = stamp;
    pb_arena_finish(&s->arena);
    s->arena = (struct pb_arena)PB_ARENA_INIT;
    if (pb_token_own(own, sizeof own, false, NULL) == 0 &&
        pb_key_of_token(&s->own_key, own, NULL) == 0) {
        pb_sha256_text(own, strlen(own), s->own);
        make_page_key(s, own);
        s->has_own = true;
    } else {
        make_page_key(s, NULL);
        s->has_own = false;
    }
    explicit_bzero(own, sizeof own);
    if (pb_tokens_read(&s->named, &s->arena, NULL) < 0)
        s->named = (struct pb_tokens){0};
    s->named_keys = PB_NEW_N(&s->arena, struct pb_key, s->named.n + 1);
    for (size_t i = 0; i < s->named.n; i++)
        pb_key_of_hash(&s->named_keys[i], s->named.v[i].hash, true, NULL);
}

bool pb_callers_key(struct pb_callers *s, const char *id, struct pb_key *ret,
                    char ret_hash[PB_SHA256_TEXT])
{
    refresh(s);
    if (s->has_own && strcmp(s->own_key.id, id) == 0) {
        *ret = s->own_key;
        strcpy(ret_hash, s->own);
        return true;
    }
    for (size_t i = 0; i < s->named.n; i++)
        if (strcmp(s->named_keys[i].id, id) == 0) {
            *ret = s->named_keys[i];
            strcpy(ret_hash, s->named.v[i].hash);
            return true;
        }
    return false;
}

const char *pb_callers_page_key(struct pb_callers *s)
{
    refresh(s);
    return s->page_key;
}

bool pb_callers_identify(struct pb_callers *s, const char *hash, struct pb_caller *ret)
{
    const struct pb_token *found = NULL;
    int64_t now = (int64_t)time(NULL);

    refresh(s);
    for (size_t i = 0; i < s->named.n; i++)
        if (pb_sha256_same(hash, s->named.v[i].hash) &&
            (!s->named.v[i].expires_s || now < s->named.v[i].expires_s))
            found = &s->named.v[i];
    if (s->has_own && pb_sha256_same(hash, s->own)) {
        ret->kind = PB_CALLER_OWN;
        ret->right = PB_RIGHT_CONTROL;
        strcpy(ret->token, PB_TOKEN_DEFAULT);
        return true;
    }
    if (!found)
        return false;
    ret->kind = PB_CALLER_NAMED;
    ret->right = found->right;
    strcpy(ret->token, found->name);
    strcpy(ret->reach, found->reach);
    return true;
}

static void key_of(const struct sockaddr_storage *from, unsigned char key[8])
{
    const struct sockaddr_in *four = (const struct sockaddr_in *)from;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)from;

    memset(key, 0, 8);
    if (from->ss_family == AF_INET) {
        memcpy(key + 4, &four->sin_addr, 4);
    } else if (from->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
        memcpy(key + 4, six->sin6_addr.s6_addr + 12, 4);
    } else if (from->ss_family == AF_INET6) {
        memcpy(key, &six->sin6_addr, 8);
    }
}

uint64_t pb_callers_wait(const struct pb_callers *s, const struct sockaddr_storage *from,
                         uint64_t now_ns)
{
    unsigned char key[8];

    key_of(from, key);
    for (size_t i = 0; i < PB_GUESSERS; i++)
        if (s->guessers[i].failures && memcmp(s->guessers[i].key, key, sizeof key) == 0)
            return s->guessers[i].until_ns > now_ns ? s->guessers[i].until_ns : 0;
    return 0;
}

/* The one of this address, else the one whose last failure is longest ago. */
static struct pb_guesser *guesser_slot(struct pb_callers *s, const unsigned char key[8])
{
    struct pb_guesser *oldest = &s->guessers[0];

    for (size_t i = 0; i < PB_GUESSERS; i++) {
        struct pb_guesser *g = &s->guessers[i];

        if (g->failures && memcmp(g->key, key, sizeof g->key) == 0)
            return g;
        if (g->last_ns < oldest->last_ns)
            oldest = g;
    }
    *oldest = (struct pb_guesser){0};
    memcpy(oldest->key, key, sizeof oldest->key);
    return oldest;
}

unsigned pb_callers_failed(struct pb_callers *s, const struct sockaddr_storage *from,
                           uint64_t now_ns, int first_ms, int max_ms)
{
    unsigned char key[8];
    struct pb_guesser *g;
    uint64_t delay = (uint64_t)first_ms;

    key_of(from, key);
    g = guesser_slot(s, key);
    if (g->failures && now_ns - g->last_ns > FORGET_NS)
        g->failures = 0;
    g->failures++;
    g->last_ns = now_ns;
    if (g->failures <= PB_GUESSES_FREE)
        return g->failures;
    for (unsigned i = PB_GUESSES_FREE + 1; i < g->failures && delay < (uint64_t)max_ms; i++)
        delay *= 2;
    if (delay > (uint64_t)max_ms)
        delay = (uint64_t)max_ms;
    g->until_ns = now_ns + delay * NS_PER_MS;
    return g->failures;
}
