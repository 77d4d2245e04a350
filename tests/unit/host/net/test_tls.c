/* Two sides with one key; with different keys; with a certificate; and somebody who has neither. */
#include "pb_test.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "host/net/stream.h"
#include "host/net/tls.h"

static struct pb_key known;

static bool find(const char *id, struct pb_key *ret, void *arg)
{
    ++*(int *)arg;
    if (strcmp(id, known.id) != 0)
        return false;
    *ret = known;
    return true;
}

struct pair {
    struct pb_stream client, server;
    int asked; /* how often the server looked for a key */
    int client_rc, server_rc;
    struct pb_err client_err, server_err;
};

/* Lets both sides shake hands as far as they come. */
static void meet(struct pair *p, const char *token, const char *cert, const char *cert_key)
{
    struct pb_tls_context *c = pb_tls_client(NULL), *s = pb_tls_server(find, NULL);
    struct pb_key key;
    int fds[2];

    *p = (struct pair){.client_rc = 1, .server_rc = 1};
    assert_non_null(c);
    assert_non_null(s);
    if (cert)
        assert_int_equal(pb_tls_certificate(s, cert, cert_key, NULL), 0);
    assert_int_equal(pb_key_of_token(&key, token, NULL), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    p->client = (struct pb_stream){.fd = fds[0], .tls = pb_tls_connect(c, fds[0], &key)};
    p->server = (struct pb_stream){.fd = fds[1], .tls = pb_tls_accept(s, fds[1], &p->asked)};
    pb_tls_context_destroy(c);
    pb_tls_context_destroy(s);
    for (int i = 0; i < 8 && (p->client_rc > 0 || p->server_rc > 0); i++) {
        if (p->client_rc > 0)
            p->client_rc = pb_tls_handshake(p->client.tls, &p->client_err);
        if (p->server_rc > 0)
            p->server_rc = pb_tls_handshake(p->server.tls, &p->server_err);
    }
}

static void part(struct pair *p)
{
    pb_stream_close(&p->client);
    pb_stream_close(&p->server);
}

static void test_keys(void **state)
{
    const char *random = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    struct pb_key a, b;
    char hash[PB_SHA256_TEXT];

    (void)state;
    pb_sha256_text(random, strlen(random), hash);
    assert_int_equal(pb_key_of_token(&a, random, NULL), 0);
    assert_int_equal(pb_key_of_hash(&b, hash, true, NULL), 0);
    assert_memory_equal(&a, &b, sizeof a); /* what a node that has only the hash makes of it */
    assert_int_equal(strlen(a.id), 32);
    /* A word that somebody chose is stretched, and so is its name. */
    pb_sha256_text("correct horse", 13, hash);
    assert_int_equal(pb_key_of_token(&a, "correct horse", NULL), 0);
    assert_int_equal(pb_key_of_hash(&b, hash, true, NULL), 0);
    assert_memory_not_equal(a.secret, b.secret, PB_KEY_BYTES);
    assert_string_not_equal(a.id, b.id);
}

static void test_same_key(void **state)
{
    static char out[200000], in[sizeof out];
    struct pair p;
    size_t sent = 0, got = 0;
    uint64_t bytes_in, bytes_out;

    (void)state;
    meet(&p, "the same token", NULL, NULL);
    assert_int_equal(p.client_rc, 0);
    assert_int_equal(p.server_rc, 0);
    assert_string_equal(pb_tls_key_id(p.server.tls), known.id);
    for (size_t i = 0; i < sizeof out; i++)
        out[i] = (char)(i * 7);
    while (got < sizeof in) {
        ssize_t n = sent < sizeof out
                        ? pb_stream_send(&p.client, out + sent, sizeof out - sent)
                        : 0;

        assert_true(n >= 0 || errno == EAGAIN);
        sent += n > 0 ? (size_t)n : 0;
        while ((n = pb_stream_recv(&p.server, in + got, sizeof in - got)) > 0)
            got += (size_t)n;
        assert_true(n < 0 && errno == EAGAIN);
    }
    assert_memory_equal(in, out, sizeof out);
    pb_tls_count(p.server.tls, &bytes_in, &bytes_out);
    assert_in_range(bytes_in, sizeof out, sizeof out + 20000);
    /* The end is told, and told from a connection that broke. */
    pb_stream_end(&p.client);
    assert_int_equal(pb_stream_recv(&p.server, in, 1), 0);
    part(&p);
    meet(&p, "the same token", NULL, NULL);
    shutdown(p.client.fd, SHUT_RDWR);
    assert_int_equal(pb_stream_recv(&p.server, in, 1), -1);
    assert_int_equal(errno, ECONNRESET);
    part(&p);
}

static void test_other_key(void **state)
{
    struct pair p;

    (void)state;
    meet(&p, "another token", NULL, NULL);
    assert_int_equal(p.client_rc, -1);
    assert_int_equal(p.client_err.code, PB_DENIED);
    assert_int_equal(p.server_rc, -1);
    assert_true(p.asked > 0);
    part(&p);
}

/* Who knows the name of a key but not the key has nothing. */
static void test_stolen_name(void **state)
{
    struct pb_tls_context *c = pb_tls_client(NULL), *s = pb_tls_server(find, NULL);
    struct pb_key thief = known;
    int fds[2], asked = 0, a = 1, b = 1;
    struct pb_tls *client, *server;

    (void)state;
    thief.secret[31] ^= 1;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    client = pb_tls_connect(c, fds[0], &thief);
    server = pb_tls_accept(s, fds[1], &asked);
    for (int i = 0; i < 8; i++) {
        a = a > 0 ? pb_tls_handshake(client, NULL) : a;
        b = b > 0 ? pb_tls_handshake(server, NULL) : b;
    }
    assert_int_equal(a, -1);
    assert_int_equal(b, -1);
    pb_tls_close(client);
    pb_tls_close(server);
    pb_tls_context_destroy(c);
    pb_tls_context_destroy(s);
    close(fds[0]);
    close(fds[1]);
}

/* Made by: openssl req -x509 -newkey ed25519 -nodes -days 1 -subj /CN=t */
static void make_certificate(char *cert, char *key)
{
    char command[300];

    snprintf(command, sizeof command,
             "openssl req -x509 -newkey ed25519 -nodes -days 1 -subj /CN=t -keyout %s -out %s "
             "2>/dev/null",
             key, cert);
    if (system(command) != 0)
        skip();
}

static void test_certificate(void **state)
{
    char cert[] = "/tmp/pb-cert-XXXXXX", key[] = "/tmp/pb-key-XXXXXX";
    struct pb_tls_context *s = pb_tls_server(find, NULL);
    struct pb_err err = {0};
    struct pair p;

    (void)state;
    close(mkstemp(cert));
    close(mkstemp(key));
    assert_int_equal(pb_tls_certificate(s, cert, key, &err), -1); /* empty files */
    assert_int_equal(err.code, PB_USAGE);
    pb_tls_context_destroy(s);
    make_certificate(cert, key);
    /* A client of ours does not take a certificate for a key. */
    meet(&p, "another token", cert, key);
    assert_int_equal(p.client_rc, -1);
    assert_int_equal(p.client_err.code, PB_DENIED);
    part(&p);
    meet(&p, "the same token", cert, key);
    assert_int_equal(p.client_rc, 0);
    assert_string_equal(pb_tls_key_id(p.server.tls), known.id);
    part(&p);
    unlink(cert);
    unlink(key);
}

/* A server that speaks something else, and one that says nothing and goes. */
static void test_not_tls(void **state)
{
    static const char *const answers[] = {"HTTP/1.1 400 Bad Request\r\n\r\n",
                                          "\x16\x03\x03\x03\x02zz", ""};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct pb_tls_context *c = pb_tls_client(NULL);
        struct pb_err err = {0};
        struct pb_tls *t;
        int fds[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
        t = pb_tls_connect(c, fds[0], &known);
        assert_int_equal(pb_tls_handshake(t, &err), 1);
        assert_int_equal(pb_tls_events(t), POLLIN);
        assert_int_equal(send(fds[1], answers[i], strlen(answers[i]), 0), strlen(answers[i]));
        shutdown(fds[1], SHUT_WR);
        assert_int_equal(pb_tls_handshake(t, &err), -1);
        assert_int_equal(err.code, PB_FAIL);
        pb_tls_close(t);
        pb_tls_context_destroy(c);
        close(fds[0]);
        close(fds[1]);
    }
}

/* A plain socket stands for the stream, both ways, until the end. */
static void test_unwrap(void **state)
{
    struct pair p;
    char in[16] = "";
    ssize_t n;
    int fd;

    (void)state;
    meet(&p, "the same token", NULL, NULL);
    fd = pb_stream_unwrap(&p.client, NULL);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "question", 8), 8);
    while ((n = pb_stream_recv(&p.server, in, sizeof in)) < 0 && errno == EAGAIN)
        poll(&(struct pollfd){.fd = p.server.fd, .events = POLLIN}, 1, 5000);
    assert_int_equal(n, 8);
    assert_int_equal(pb_stream_send(&p.server, "answer", 6), 6);
    poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 5000);
    assert_int_equal(read(fd, in, sizeof in), 6);
    pb_stream_close(&p.server);
    poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 5000);
    assert_int_equal(read(fd, in, sizeof in), 0);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),        cmocka_unit_test(test_same_key),
        cmocka_unit_test(test_other_key),   cmocka_unit_test(test_stolen_name),
        cmocka_unit_test(test_certificate), cmocka_unit_test(test_not_tls),
        cmocka_unit_test(test_unwrap),
    };

    if (pb_key_of_token(&known, "the same token", NULL) < 0)
        return 1;
    return RUN_TESTS(tests);
}
