/*
 * POST /api/session - a browser signs in: a token or a ticket in Authorization, which no form can
 * send, becomes a cookie and the page's half of a session (session.h).
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "host/text/json_write.h"
#include "node/access/audit.h"
#include "node/http/conn.h"
#include "node/parts.h"

#define DAY_S 86400

static void run(struct pb_request *rq);

const struct pb_route pb_route_sign_in = {
    .method = "POST",
    .path = "/api/session",
    .doc = "a browser signs in: Authorization: Bearer TOKEN or Ticket CODE",
    .flags = PB_ROUTE_SIGN_IN,
    .run = run,
};

/* Below /api, as the browser sees it, a prefix of a proxy included: no Path is the folder's own. */
static void set_cookie(struct pb_request *rq, const char *host, const char *value)
{
    const char *origin = pb_http_header(rq->head, "Origin");
    bool secure = origin && strncasecmp(origin, "https://", 8) == 0;
    char name[PB_SESSION_NAME_MAX], line[PB_SESSION_COOKIE_MAX + 120];

    pb_session_name(host, name);
    snprintf(line, sizeof line, "%s=%s; Max-Age=%d; HttpOnly; SameSite=Strict%s", name, value,
             PB_SESSION_DAYS * DAY_S, secure ? "; Secure" : "");
    pb_reply_note(rq, "Set-Cookie", line);
}

static void write_down(struct pb_request *rq)
{
    struct pb_node_audit_row row = {.action = "login", .result = "ok",
                                    .client = rq->client.name, .detail = "a browser"};

    pb_node_audit_write(rq->node->audit, &row);
}

static void run(struct pb_request *rq)
{
    const struct pb_conn *c = rq->conn;
    const char *host = pb_http_header(rq->head, "Host");
    struct pb_session s = {.right = c->caller.right,
                           .expires_s = pb_clock_wall_ns() / 1000000000 + PB_SESSION_DAYS * DAY_S};
    char cookie[PB_SESSION_COOKIE_MAX], page[PB_SHA256_TEXT], nonce[PB_TOKEN_MAX];
    struct pb_buf b = PB_BUF_INIT;
    struct pb_err err = {0};

    if (!c->caller.hash[0] || !host) {
        pb_err_set(&err, PB_USAGE, "nothing to sign in to: this address asks for no token");
        pb_reply_error(rq, &err, -1, NULL);
        return;
    }
    if (pb_token_make(nonce, &err) < 0) {
        pb_reply_error(rq, &err, -1, NULL);
        return;
    }
    memcpy(s.nonce, nonce, sizeof s.nonce - 1);
    memcpy(s.hash, c->caller.hash, sizeof s.hash);
    pb_session_make(c->page_key, host, &s, cookie, page);
    write_down(rq);
    pb_buf_puts(&b, "{");
    pb_json_key(&b, "page");
    pb_json_string(&b, page);
    pb_buf_putc(&b, '}');
    pb_reply_begin(rq, 200, "application/json");
    set_cookie(rq, host, cookie);
    pb_reply_write(rq, b.data, b.len);
    pb_reply_end(rq);
    pb_buf_finish(&b);
}
