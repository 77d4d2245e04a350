#include "node/http/guard.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "host/text/nearest.h"
#include "node/access/audit.h"
#include "node/parts.h"

static int refuse(struct pb_refusal *r, int status, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static int refuse(struct pb_refusal *r, int status, const char *code, const char *fmt, ...)
{
    va_list ap;

    r->status = status;
    r->code = code;
    va_start(ap, fmt);
    vsnprintf(r->message, sizeof r->message, fmt, ap);
    va_end(ap);
    return -1;
}

/* The name in a Host header: without port and brackets. False when it is no name and port. */
static bool host_name(const char *value, char *buf, size_t cap)
{
    bool bracket = *value == '[';
    size_t len = bracket ? strcspn(++value, "]") : strcspn(value, ":");
    const char *behind = value + len + (bracket && value[len]);

    if (len == 0 || len >= cap || (bracket && !value[len]) || (*behind && *behind != ':') ||
        (*behind && behind[1 + strspn(behind + 1, "0123456789")]))
        return false;
    memcpy(buf, value, len);
    buf[len] = '\0';
    return true;
}

static bool is_address(const char *name)
{
    unsigned char bytes[16];

    return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

/*
 * A page of another site can have its name point to this machine and then read the answers as its
 * own. It cannot do that by an address or under the very name of this machine, whole or up to its
 * first dot; a longer name that begins like it may be anybody's. Names of proxies are those that
 * the node's user has said.
 */
static bool is_this_machine(struct pb_conn *c, const char *value)
{
    const char *own = c->server->host;
    char name[PB_HTTP_NAME_MAX];
    size_t first = strcspn(own, ".");

    if (!value || !host_name(value, name, sizeof name))
        return false;
    return is_address(name) || strcasecmp(name, "localhost") == 0 ||
           strcasecmp(name, c->listener->host) == 0 ||
           strcasecmp(name, own) == 0 || pb_listener_has_name(c->server, c->listener, name) ||
           (first && strncasecmp(name, own, first) == 0 && !name[first]);
}

/* Is the Origin of a page this server? Behind a proxy that speaks TLS its scheme is another. */
static bool is_same_origin(const char *origin, const char *host)
{
    size_t scheme = strncasecmp(origin, "http://", 7) == 0    ? 7
                    : strncasecmp(origin, "https://", 8) == 0 ? 8
                                                              : 0;

    return scheme && host && strcasecmp(origin + scheme, host) == 0;
}

/* Somebody followed a link: nothing but the page itself is shown, and nothing is sent along. */
static bool is_visit(const struct pb_http_head *h, const struct pb_route *route)
{
    const char *mode = pb_http_header(h, "Sec-Fetch-Mode");
    const char *dest = pb_http_header(h, "Sec-Fetch-Dest");

    return route && route->flags & PB_ROUTE_VISIT && mode && strcasecmp(mode, "navigate") == 0 &&
           dest && strcasecmp(dest, "document") == 0;
}

/* A browser says where a request comes from; other programs do not send these. */
static bool is_cross_site(const struct pb_http_head *h, const struct pb_route *route)
{
    const char *origin = pb_http_header(h, "Origin"), *host = pb_http_header(h, "Host");
    const char *site = pb_http_header(h, "Sec-Fetch-Site");

    if (origin && !is_same_origin(origin, host))
        return true;
    return site && strcasecmp(site, "same-origin") != 0 && strcasecmp(site, "none") != 0 &&
           !is_visit(h, route);
}

/* Headers that a browser sends of itself, and programs do not. */
static bool is_browser(const struct pb_http_head *h)
{
    return pb_http_header(h, "Origin") || pb_http_header(h, "Sec-Fetch-Site") ||
           pb_http_header(h, "Cookie");
}

static const char *token_of(const struct pb_http_head *h)
{
    const char *value = pb_http_header(h, "Authorization");

    if (value && strncasecmp(value, "Bearer ", 7) == 0)
        return value + 7 + strspn(value + 7, " ");
    return pb_http_header(h, "X-Probing-Token");
}

void pb_guard_note_refused(struct pb_conn *c, const char *detail)
{
    struct pb_node_audit_row row = {.action = "login", .result = "refused", .detail = detail};
    char address[80];

    pb_address_text(&c->from, address, sizeof address);
    row.client = address;
    pb_node_audit_write(c->server->node ? c->server->node->audit : NULL, &row);
}

/* What `probing web` puts into an address. */
static const char *ticket_of(const struct pb_http_head *h)
{
    const char *value = pb_http_header(h, "Authorization");

    return value && strncasecmp(value, "Ticket ", 7) == 0 ? value + 7 : NULL;
}

/*
 * Written down with the address. A wrong one is counted, and from who goes on guessing the next one
 * is looked at later; none at all is no guess.
 */
static int wrong_token(struct pb_conn *c, bool given, struct pb_refusal *r)
{
    const struct pb_limits *limits = &c->server->limits;
    char detail[160];
    unsigned n;

    if (given) {
        n = pb_callers_failed(&c->server->callers, &c->from, pb_clock_ns(), limits->guess,
                              limits->guess_max);
        snprintf(detail, sizeof detail, "wrong token, number %u from there: %.10s %.80s", n,
                 c->head.method, c->head.path);
    } else {
        snprintf(detail, sizeof detail, "no token for %.10s %.80s", c->head.method, c->head.path);
    }
    pb_guard_note_refused(c, detail);
    strcpy(r->header, "WWW-Authenticate: Bearer realm=\"probing\"\r\n");
    if (ticket_of(&c->head))
        return refuse(r, 401, "denied",
                      "this address was used already, or is too old: `probing web` makes another");
    return refuse(r, 401, "denied",
                  "%s: give the one that `probing token` shows to the user who runs the node, or "
                  "the PROBING_TOKEN that the port was opened with: $PROBING_TOKEN, probing "
                  "--token-file FILE, or the header Authorization: Bearer TOKEN",
                  given ? "wrong token" : "no token");
}

/* Somebody who signed in: known by the token of that time, with no more rights than then. */
static bool accept_session(struct pb_conn *c, const struct pb_session *s)
{
    if (!pb_listener_accepts(c->server, c->listener, s->hash, &c->caller)) {
        c->caller = (struct pb_caller){.kind = PB_CALLER_ANYONE};
        return false;
    }
    if (c->caller.right > s->right)
        c->caller.right = s->right;
    return true;
}

static bool has_session(struct pb_conn *c)
{
    const struct pb_http_head *h = &c->head;
    struct pb_session s;

    return pb_http_header(h, "Cookie") &&
           pb_session_read(pb_callers_page_key(&c->server->callers), pb_http_header(h, "Host"),
                           pb_http_header(h, "Cookie"), pb_http_header(h, "X-Probing-Page"),
                           pb_clock_wall_ns() / 1000000000, &s) &&
           accept_session(c, &s);
}

/* The token that a request came with: in a header, or as the key of its connection. */
static bool is_accepted(struct pb_conn *c, const char *token)
{
    const char *id = c->io.tls && !c->relayed ? pb_tls_key_id(c->io.tls) : "";
    char hash[PB_SHA256_TEXT];
    struct pb_key key;

    if (token)
        pb_sha256_text(token, strlen(token), hash);
    else if (!*id || !pb_listener_key(c->server, c->listener, id, &key, hash))
        return false;
    return pb_listener_accepts(c->server, c->listener, hash, &c->caller);
}

static bool has_token(struct pb_conn *c, const struct pb_route *route, bool *ret_given)
{
    const char *token = token_of(&c->head), *ticket = ticket_of(&c->head);
    struct pb_session s;

    *ret_given = true;
    if (route && route->flags & PB_ROUTE_SIGN_IN && ticket)
        return pb_tickets_use(&c->server->tickets, ticket, pb_clock_ns(), &s) &&
               accept_session(c, &s);
    *ret_given = token != NULL;
    return is_accepted(c, token);
}

static int check_token(struct pb_conn *c, const struct pb_route *route, struct pb_refusal *r)
{
    bool given;

    c->caller = (struct pb_caller){.kind = PB_CALLER_ANYONE, .right = PB_RIGHT_CONTROL};
    /* A session cannot be guessed: who has one does not wait for those who guess tokens. */
    if (c->listener->no_token || (!token_of(&c->head) && has_session(c)))
        return 0;
    r->wait_ns = pb_callers_wait(&c->server->callers, &c->from, pb_clock_ns());
    if (r->wait_ns)
        return -1;
    if (has_token(c, route, &given))
        return 0;
    return wrong_token(c, given, r);
}

/* A route that everybody may ask, but that tells those who signed in more. */
static void identify_browser(struct pb_conn *c)
{
    if (c->listener->no_token)
        c->caller.right = PB_RIGHT_CONTROL;
    else
        has_session(c);
}

static int check_right(struct pb_conn *c, const struct pb_route *route, struct pb_refusal *r)
{
    if (route->needs <= c->caller.right || route->flags & PB_ROUTE_OPEN)
        return 0;
    return refuse(r, 403, "denied", "%s needs a token of scope %s; '%s' is one for %s", route->path,
                  pb_right_name(route->needs), c->caller.token, pb_right_name(c->caller.right));
}

/* From another machine, or from a browser on this one. */
static int check_stranger(struct pb_conn *c, const struct pb_route *route, struct pb_refusal *r)
{
    bool open = route && route->flags & PB_ROUTE_OPEN;

    c->caller = (struct pb_caller){.kind = PB_CALLER_ANYONE};
    if (c->listener->fd < 0)
        return refuse(r, 403, "denied", "the process that opened this port has ended");
    if (is_cross_site(&c->head, route))
        return refuse(r, 403, "denied", "requests from another site's page are refused");
    if (!open && !c->io.tls && !c->here && !c->listener->plain && !c->listener->no_token)
        return refuse(r, 403, "denied",
                      "without TLS this port answers its own machine only: the command line uses "
                      "TLS when it has the token ($PROBING_TOKEN, --token-file); for curl and "
                      "browsers give the port a certificate, or open it with --plain");
    if ((open || c->listener->no_token || is_browser(&c->head)) && c->head.nheaders &&
        !is_this_machine(c, pb_http_header(&c->head, "Host")))
        return refuse(r, 403, "denied",
                      "the Host header names no address and not this machine: use its address, or "
                      "behind a proxy: probing web --url URL");
    if (!open)
        return check_token(c, route, r);
    if (route->flags & PB_ROUTE_BROWSER)
        identify_browser(c);
    return 0;
}

static int not_found(struct pb_conn *c, struct pb_refusal *r)
{
    struct pb_nearest near = PB_NEAREST_INIT(c->head.path);
    const char *best;

    for (const struct pb_route *const *p = c->server->routes; *p; p++)
        pb_nearest_offer(&near, (*p)->path);
    best = pb_nearest_result(&near);
    return refuse(r, 404, "not_found", "no %.100s here%s%s", c->head.path,
                  best ? "; nearest: " : "", best ? best : ": GET / names what there is");
}

static bool is_path_of(const struct pb_route *r, const char *path)
{
    return r->flags & PB_ROUTE_BELOW ? strncmp(r->path, path, strlen(r->path)) == 0
                                     : strcmp(r->path, path) == 0;
}

static int wrong_method(struct pb_conn *c, struct pb_refusal *r)
{
    size_t n = (size_t)snprintf(r->header, sizeof r->header, "Allow:");

    for (const struct pb_route *const *p = c->server->routes; *p; p++)
        if (is_path_of(*p, c->head.path) && n < sizeof r->header - 24)
            n += (size_t)snprintf(r->header + n, sizeof r->header - n, "%s %s%s",
                                  r->header[n - 1] == ':' ? "" : ",", (*p)->method,
                                  strcmp((*p)->method, "GET") == 0 ? ", HEAD" : "");
    snprintf(r->header + n, sizeof r->header - n, "\r\n");
    return refuse(r, 405, "method", "%.20s is not for %.100s", c->head.method, c->head.path);
}

static int check_body(struct pb_conn *c, struct pb_refusal *r)
{
    const struct pb_http_head *h = &c->head;
    const char *type = pb_http_header(h, "Content-Type");

    if (pb_http_header(h, "Expect") && !h->expect_continue)
        return refuse(r, 417, "usage", "only 100-continue can be expected");
    if (strcmp(h->method, "POST") != 0)
        return h->length > 0 || h->chunked ? refuse(r, 400, "usage", "GET takes no body") : 0;
    if (!pb_http_is_type(type, "application/json"))
        return refuse(r, 415, "usage", "the body must be JSON: Content-Type: application/json");
    if (h->length > PB_HTTP_BODY_MAX)
        return refuse(r, 413, "too_large", "the body is longer than %d MB", PB_HTTP_BODY_MAX >> 20);
    return 0;
}

int pb_guard_check(struct pb_conn *c, struct pb_refusal *ret)
{
    const struct pb_route *route = NULL, *same_path = NULL;
    const char *method = strcmp(c->head.method, "HEAD") == 0 ? "GET" : c->head.method;

    *ret = (struct pb_refusal){0};
    for (const struct pb_route *const *p = c->server->routes; *p && !route; p++) {
        if (!is_path_of(*p, c->head.path))
            continue;
        same_path = *p;
        if (strcmp((*p)->method, method) == 0)
            route = *p;
    }
    if (c->tcp && check_stranger(c, route, ret) < 0)
        return -1;
    if (!same_path)
        return not_found(c, ret);
    if (!route)
        return wrong_method(c, ret);
    if (c->tcp && route->flags & PB_ROUTE_LOCAL)
        return refuse(ret, 403, "denied", "%s is only for this machine: use the Unix socket",
                      route->path);
    if (check_right(c, route, ret) < 0)
        return -1;
    if (route->flags & PB_ROUTE_SIGN_IN)
        memcpy(c->page_key, pb_callers_page_key(&c->server->callers), sizeof c->page_key);
    c->route = route;
    return check_body(c, ret);
}
