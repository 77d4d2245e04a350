/*
 * POST /api/ticket - a code that stands for the caller's token once, for `probing web` to put into
 * an address. Over the Unix socket it stands for the user's own token.
 */
#include <string.h>

#include "base/clock.h"
#include "host/text/json_write.h"
#include "node/http/conn.h"

static void run(struct pb_request *rq);

const struct pb_route pb_route_ticket = {
    .method = "POST",
    .path = "/api/ticket",
    .doc = "a code that signs a browser in, once: {scope?}",
    .run = run,
};

/* The scope may be made narrower. */
static int read_scope(struct pb_request *rq, enum pb_right *ret, struct pb_err *err)
{
    const char *name = pb_json_str(rq->body, "scope", NULL);

    *ret = rq->right;
    if (!name)
        return 0;
    for (int i = PB_RIGHT_READ; i <= PB_RIGHT_CONTROL; i++)
        if (strcmp(name, pb_right_name((enum pb_right)i)) == 0) {
            *ret = (enum pb_right)i < rq->right ? (enum pb_right)i : rq->right;
            return 0;
        }
    return pb_err_set(err, PB_USAGE, "scope '%.20s' is none of read, look, control", name);
}

static int token_hash(struct pb_request *rq, char ret[PB_SHA256_TEXT], struct pb_err *err)
{
    const struct pb_caller *who = &rq->conn->caller;
    char own[PB_TOKEN_MAX];

    if (who->hash[0]) {
        memcpy(ret, who->hash, PB_SHA256_TEXT);
        return 0;
    }
    if (!rq->local)
        return pb_err_set(err, PB_USAGE, "this address asks for no token, and so for no ticket");
    if (pb_token_own(own, sizeof own, true, err) < 0)
        return -1;
    pb_sha256_text(own, strlen(own), ret);
    explicit_bzero(own, sizeof own);
    return 0;
}

static void run(struct pb_request *rq)
{
    char hash[PB_SHA256_TEXT], code[PB_TOKEN_MAX];
    struct pb_buf b = PB_BUF_INIT;
    struct pb_err err = {0};
    enum pb_right right;

    if (read_scope(rq, &right, &err) < 0 || token_hash(rq, hash, &err) < 0 ||
        pb_tickets_add(&rq->server->tickets, hash, right, pb_clock_ns(), code, &err) < 0) {
        pb_reply_error(rq, &err, -1, NULL);
        return;
    }
    pb_buf_puts(&b, "{");
    pb_json_key(&b, "ticket");
    pb_json_string(&b, code);
    pb_json_key(&b, "valid_s");
    pb_json_int(&b, PB_TICKET_S);
    pb_buf_putc(&b, '}');
    pb_reply_json(rq, &b);
    pb_buf_finish(&b);
}
