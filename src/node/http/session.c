#include "node/http/session.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/net/hmac.h"
#include "host/net/http.h"

#define NS_PER_S 1000000000ull
enum { MESSAGE_MAX = PB_SESSION_COOKIE_MAX + PB_HTTP_NAME_MAX + 32 };

void pb_session_name(const char *host, char ret[PB_SESSION_NAME_MAX])
{
    char hash[PB_SHA256_TEXT];

    pb_sha256_text(host, strlen(host), hash);
    snprintf(ret, PB_SESSION_NAME_MAX, "probing-%.12s", hash);
}

/* What one half proves. Names of hosts are the same in either case. */
static void sign(const char *key, const char *host, const char *half, const char *payload,
                 char ret[PB_SHA256_TEXT])
{
    char message[MESSAGE_MAX];
    int n = snprintf(message, sizeof message, "%s\n%.*s\n%s", half, PB_HTTP_NAME_MAX, host,
                     payload);

    for (char *p = message; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    pb_hmac_text(key, strlen(key), message, (size_t)n, ret);
}

/* Makes the hash unreadable, and done twice readable again: its digits XOR those of a mark. */
static void seal(const char *key, const char *nonce, const char *hash, char ret[PB_SHA256_TEXT])
{
    static const char digits[] = "0123456789abcdef";
    char mark[PB_SHA256_TEXT];

    sign(key, "", "seal", nonce, mark);
    for (int i = 0; i < PB_SHA256_TEXT - 1; i++) {
        const char *a = strchr(digits, hash[i]), *b = strchr(digits, mark[i]);

        ret[i] = digits[(a ? a - digits : 0) ^ (b - digits)];
    }
    ret[PB_SHA256_TEXT - 1] = '\0';
}

void pb_session_make(const char *key, const char *host, const struct pb_session *s,
                     char ret_cookie[PB_SESSION_COOKIE_MAX], char ret_page[PB_SHA256_TEXT])
{
    char payload[PB_SHA256_TEXT + 60], sealed[PB_SHA256_TEXT], mark[PB_SHA256_TEXT];

    seal(key, s->nonce, s->hash, sealed);
    snprintf(payload, sizeof payload, "%d.%lld.%s.%s", (int)s->right, (long long)s->expires_s,
             s->nonce, sealed);
    sign(key, host, "cookie", payload, mark);
    snprintf(ret_cookie, PB_SESSION_COOKIE_MAX, "%s.%s", payload, mark);
    sign(key, host, "page", payload, ret_page);
}

/* The value of a cookie in "a=1; b=2", or NULL. */
static const char *find_cookie(const char *header, const char *name, size_t *ret_len)
{
    size_t len = strlen(name);

    while (header && *header) {
        header += strspn(header, "; ");
        if (strncmp(header, name, len) == 0 && header[len] == '=') {
            *ret_len = strcspn(header + len + 1, ";");
            return header + len + 1;
        }
        header += strcspn(header, ";");
    }
    return NULL;
}

bool pb_session_read(const char *key, const char *host, const char *header, const char *page,
                     int64_t now_s, struct pb_session *ret)
{
    char name[PB_SESSION_NAME_MAX], text[PB_SESSION_COOKIE_MAX], mark[PB_SHA256_TEXT];
    size_t len = 0;
    const char *value;
    struct pb_session s = {0};
    char *given;
    int right, n = 0;
    long long expires;

    if (!host || !page || strlen(page) != PB_SHA256_TEXT - 1)
        return false;
    pb_session_name(host, name);
    value = find_cookie(header, name, &len);
    if (!value || len >= sizeof text)
        return false;
    memcpy(text, value, len);
    text[len] = '\0';
    given = strrchr(text, '.');
    if (!given || strlen(given + 1) != PB_SHA256_TEXT - 1)
        return false;
    *given++ = '\0';
    sign(key, host, "cookie", text, mark);
    if (!pb_sha256_same(mark, given))
        return false;
    sign(key, host, "page", text, mark);
    if (!pb_sha256_same(mark, page))
        return false;
    /* From here on it is our own text. */
    if (sscanf(text, "%d.%lld.%16[0-9a-f].%n", &right, &expires, s.nonce, &n) != 3 || !n ||
        right < PB_RIGHT_READ || right > PB_RIGHT_CONTROL || expires <= now_s ||
        strlen(text + n) != PB_SHA256_TEXT - 1)
        return false;
    s.right = (enum pb_right)right;
    s.expires_s = expires;
    seal(key, s.nonce, text + n, s.hash);
    *ret = s;
    return true;
}

void pb_tickets_init(struct pb_tickets *t)
{
    *t = (struct pb_tickets){0};
    pthread_mutex_init(&t->lock, NULL);
}

void pb_tickets_finish(struct pb_tickets *t)
{
    pthread_mutex_destroy(&t->lock);
}

int pb_tickets_add(struct pb_tickets *t, const char *token_hash, enum pb_right right,
                   uint64_t now_ns, char ret_code[PB_TOKEN_MAX], struct pb_err *err)
{
    struct pb_ticket *slot;

    if (pb_token_make(ret_code, err) < 0)
        return -1;
    pthread_mutex_lock(&t->lock);
    slot = &t->v[0];
    for (int i = 0; i < PB_TICKETS; i++)
        if (t->v[i].until_ns < slot->until_ns)
            slot = &t->v[i];
    *slot = (struct pb_ticket){.right = right, .until_ns = now_ns + PB_TICKET_S * NS_PER_S};
    pb_sha256_text(ret_code, strlen(ret_code), slot->code);
    snprintf(slot->token, sizeof slot->token, "%s", token_hash);
    pthread_mutex_unlock(&t->lock);
    return 0;
}

bool pb_tickets_use(struct pb_tickets *t, const char *code, uint64_t now_ns,
                    struct pb_session *ret)
{
    char hash[PB_SHA256_TEXT];
    bool found = false;

    pb_sha256_text(code, strlen(code), hash);
    pthread_mutex_lock(&t->lock);
    for (int i = 0; i < PB_TICKETS; i++) {
        struct pb_ticket *v = &t->v[i];

        if (!v->code[0] || !pb_sha256_same(v->code, hash))
            continue;
        found = v->until_ns > now_ns;
        *ret = (struct pb_session){.right = v->right};
        strcpy(ret->hash, v->token);
        *v = (struct pb_ticket){0};
    }
    pthread_mutex_unlock(&t->lock);
    return found;
}
