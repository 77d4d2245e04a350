#include "host/net/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "host/text/alloc.h"

/* Both with SHA-256, which a key of ours is for; the second where a CPU has no AES. */
#define CIPHERS "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"
#define GROUPS "X25519"

struct pb_tls_context {
    SSL_CTX *ssl;
    BIO_METHOD *socket;
    pb_tls_find *find;
    _Atomic int users; /* connections, and whoever made it */
};

struct pb_tls {
    struct pb_tls_context *context;
    SSL *ssl;
    int fd;
    short events;
    bool broken; /* no goodbye: the library forbids it behind a failure */
    struct pb_key key; /* a client's key */
    char id[PB_KEY_ID]; /* name of the key that the other side gave, if it is known */
    void *arg;
    uint64_t in, out;
};

/* A socket, without the signal that write() raises when the other side is gone. */
static int socket_write(BIO *b, const char *data, int len)
{
    struct pb_tls *t = BIO_get_data(b);
    ssize_t n = send(t->fd, data, (size_t)len, MSG_NOSIGNAL);

    BIO_clear_retry_flags(b);
    if (n > 0)
        t->out += (uint64_t)n;
    else if (n < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(b);
    return (int)n;
}

static int socket_read(BIO *b, char *data, int len)
{
    struct pb_tls *t = BIO_get_data(b);
    ssize_t n = recv(t->fd, data, (size_t)len, 0);

    BIO_clear_retry_flags(b);
    if (n > 0)
        t->in += (uint64_t)n;
    else if (n < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(b);
    return (int)n;
}

static long socket_control(BIO *b, int cmd, long num, void *ptr)
{
    (void)b;
    (void)num;
    (void)ptr;
    return cmd == BIO_CTRL_FLUSH;
}

static SSL_SESSION *session_of(SSL *ssl, const struct pb_key *key)
{
    static const unsigned char aes[2] = {0x13, 0x01};
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, aes);
    SSL_SESSION *s = SSL_SESSION_new();

    if (s && cipher && SSL_SESSION_set1_master_key(s, key->secret, PB_KEY_BYTES) &&
        SSL_SESSION_set_cipher(s, cipher) && SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION))
        return s;
    SSL_SESSION_free(s);
    return NULL;
}

static int use_key(SSL *ssl, const EVP_MD *md, const unsigned char **ret_id, size_t *ret_len,
                   SSL_SESSION **ret)
{
    struct pb_tls *t = SSL_get_app_data(ssl);

    (void)md; /* the library itself passes a key over whose hash is another */
    *ret_id = (const unsigned char *)t->key.id;
    *ret_len = PB_KEY_ID - 1;
    *ret = session_of(ssl, &t->key);
    return *ret != NULL;
}

static int find_key(SSL *ssl, const unsigned char *id, size_t len, SSL_SESSION **ret)
{
    struct pb_tls *t = SSL_get_app_data(ssl);
    struct pb_key key;
    char name[PB_KEY_ID];

    *ret = NULL;
    if (len != sizeof name - 1 || memchr(id, 0, len))
        return 1; /* not one of ours: as if none had been offered */
    memcpy(name, id, len);
    name[len] = '\0';
    if (!t->context->find(name, &key, t->arg))
        return 1;
    *ret = session_of(ssl, &key);
    explicit_bzero(&key, sizeof key);
    memcpy(t->id, name, sizeof name);
    return *ret != NULL;
}

/* A client of ours trusts the key alone. */
static int trust_nobody(X509_STORE_CTX *store, void *arg)
{
    (void)store;
    (void)arg;
    return 0;
}

static int set_up(struct pb_tls_context *c)
{
    SSL_CTX *s = c->ssl;

    c->socket = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "socket");
    if (!s || !c->socket || !BIO_meth_set_write(c->socket, socket_write) ||
        !BIO_meth_set_read(c->socket, socket_read) || !BIO_meth_set_ctrl(c->socket, socket_control))
        return -1;
    SSL_CTX_set_mode(s, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_options(s, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_session_cache_mode(s, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_read_ahead(s, 1);
    return SSL_CTX_set_min_proto_version(s, TLS1_3_VERSION) && SSL_CTX_set_num_tickets(s, 0) &&
                   SSL_CTX_set_ciphersuites(s, CIPHERS) && SSL_CTX_set1_groups_list(s, GROUPS)
               ? 0
               : -1;
}

static struct pb_tls_context *create(bool server, pb_tls_find *find, struct pb_err *err)
{
    struct pb_tls_context *c = pb_alloc_resize(NULL, sizeof *c);

    /* No file of the system's changes what is promised here. */
    OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
    *c = (struct pb_tls_context){.find = find};
    c->users = 1;
    c->ssl = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
    if (set_up(c) < 0) {
        pb_tls_context_destroy(c);
        pb_err_set(err, PB_FAIL, "TLS: the library cannot be set up");
        return NULL;
    }
    if (server) {
        SSL_CTX_set_psk_find_session_callback(c->ssl, find_key);
    } else {
        SSL_CTX_set_psk_use_session_callback(c->ssl, use_key);
        SSL_CTX_set_verify(c->ssl, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_cert_verify_callback(c->ssl, trust_nobody, NULL);
    }
    return c;
}

struct pb_tls_context *pb_tls_client(struct pb_err *err)
{
    return create(false, NULL, err);
}

struct pb_tls_context *pb_tls_server(pb_tls_find *find, struct pb_err *err)
{
    return create(true, find, err);
}

int pb_tls_certificate(struct pb_tls_context *c, const char *cert, const char *key,
                       struct pb_err *err)
{
    const char *what = NULL;

    if (SSL_CTX_use_certificate_chain_file(c->ssl, cert) != 1)
        what = cert;
    else if (SSL_CTX_use_PrivateKey_file(c->ssl, key, SSL_FILETYPE_PEM) != 1 ||
             SSL_CTX_check_private_key(c->ssl) != 1)
        what = key;
    if (!what)
        return 0;
    pb_err_set(err, PB_USAGE, "%s: %s", what,
               ERR_reason_error_string(ERR_peek_error()) ? ERR_reason_error_string(ERR_peek_error())
                                                         : "cannot be read");
    ERR_clear_error();
    return -1;
}

void pb_tls_context_destroy(struct pb_tls_context *c)
{
    if (!c || --c->users > 0)
        return;
    SSL_CTX_free(c->ssl);
    BIO_meth_free(c->socket);
    free(c);
}

static struct pb_tls *open_on(struct pb_tls_context *c, int fd, bool server)
{
    struct pb_tls *t = pb_alloc_resize(NULL, sizeof *t);
    BIO *b = BIO_new(c->socket);

    *t = (struct pb_tls){.context = c, .fd = fd, .events = POLLIN, .ssl = SSL_new(c->ssl)};
    if (!t->ssl || !b) {
        SSL_free(t->ssl);
        BIO_free(b);
        free(t);
        return NULL;
    }
    c->users++;
    BIO_set_data(b, t);
    BIO_set_init(b, 1);
    SSL_set_bio(t->ssl, b, b);
    SSL_set_app_data(t->ssl, t);
    if (server)
        SSL_set_accept_state(t->ssl);
    else
        SSL_set_connect_state(t->ssl);
    return t;
}

struct pb_tls *pb_tls_connect(struct pb_tls_context *c, int fd, const struct pb_key *key)
{
    struct pb_tls *t = open_on(c, fd, false);

    if (t) {
        t->key = *key;
        memcpy(t->id, key->id, sizeof t->id);
    }
    return t;
}

struct pb_tls *pb_tls_accept(struct pb_tls_context *c, int fd, void *arg)
{
    struct pb_tls *t = open_on(c, fd, true);

    if (t)
        t->arg = arg;
    return t;
}

void pb_tls_close(struct pb_tls *t)
{
    if (!t)
        return;
    if (!t->broken && SSL_is_init_finished(t->ssl))
        SSL_shutdown(t->ssl);
    SSL_free(t->ssl);
    pb_tls_context_destroy(t->context);
    explicit_bzero(&t->key, sizeof t->key);
    ERR_clear_error();
    free(t);
}

/* After a call that did not do all: 1 when it is to be repeated, else errno is set. */
static int look_at(struct pb_tls *t, int rc)
{
    int why = SSL_get_error(t->ssl, rc), was = errno;

    switch (why) {
    case SSL_ERROR_WANT_READ:
        t->events = POLLIN;
        errno = EAGAIN;
        return 1;
    case SSL_ERROR_WANT_WRITE:
        t->events = POLLOUT;
        errno = EAGAIN;
        return 1;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    default:
        t->broken = true;
        errno = why == SSL_ERROR_SYSCALL && was ? was : ECONNRESET;
        return -1;
    }
}

/* Did the other side, or did we, find that the keys differ? The text of the alert is the same. */
static bool is_about_keys(unsigned long code)
{
    switch (ERR_GET_REASON(code)) {
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE: /* what a server without such a key answers */
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
    case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
    case SSL_R_CERTIFICATE_VERIFY_FAILED: /* it showed a certificate instead */
    case SSL_R_BINDER_DOES_NOT_VERIFY:
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
        return true;
    default:
        return false;
    }
}

int pb_tls_handshake(struct pb_tls *t, struct pb_err *err)
{
    unsigned long code;
    int rc;

    ERR_clear_error();
    rc = SSL_do_handshake(t->ssl);
    if (rc != 1 && look_at(t, rc) == 1)
        return 1;
    if (rc == 1 && SSL_session_reused(t->ssl))
        return 0; /* by the key */
    if (rc == 1 && SSL_is_server(t->ssl)) {
        t->id[0] = '\0'; /* by our certificate; of the other side nothing is known */
        return 0;
    }
    code = ERR_peek_error();
    t->broken = true;
    ERR_clear_error();
    if (rc == 1 || is_about_keys(code))
        return pb_err_set(err, PB_DENIED, "the other side does not have this key");
    return pb_err_set(err, PB_FAIL, code ? "what answers does not speak TLS as probing does"
                                         : "the connection was closed without a handshake");
}

short pb_tls_events(const struct pb_tls *t)
{
    return t->events;
}

const char *pb_tls_key_id(const struct pb_tls *t)
{
    return t->id;
}

ssize_t pb_tls_read(struct pb_tls *t, void *data, size_t len)
{
    size_t n = 0;
    int rc;

    ERR_clear_error();
    rc = SSL_read_ex(t->ssl, data, len, &n);
    if (rc == 1)
        return (ssize_t)n;
    return look_at(t, rc) == 0 ? 0 : -1;
}

ssize_t pb_tls_write(struct pb_tls *t, const void *data, size_t len)
{
    size_t n = 0;
    int rc;

    if (!len)
        return 0;
    ERR_clear_error();
    rc = SSL_write_ex(t->ssl, data, len, &n);
    if (rc == 1)
        return (ssize_t)n;
    if (look_at(t, rc) == 0)
        errno = EPIPE;
    return -1;
}

bool pb_tls_holds(const struct pb_tls *t)
{
    return SSL_has_pending(t->ssl);
}

void pb_tls_count(const struct pb_tls *t, uint64_t *ret_in, uint64_t *ret_out)
{
    *ret_in = t->in;
    *ret_out = t->out;
}
