/*
 * many_nodes FOLDER COUNT PORT TOKEN [ASKER]: one process that plays many nodes of a cluster.
 *
 * Node i listens on 127.0.0.1:PORT+i, speaks the real protocol over the real TLS, knows all the
 * others and eight ranks of its own; what one hears all know at once. To a question in SQL it
 * answers with FOLDER/<hash of the SQL>/<i>.parquet; where that folder is not there yet, the SQL
 * is written to FOLDER/<hash>.sql and refused: whoever runs this makes the answers, with an
 * engine, and asks again. FOLDER/mode-<i> says "hang", "slow" or "gone"; FOLDER/claim-<i>,
 * there at the start, which ranks it says it runs. With ASKER, an address,
 * the nodes together talk to that one as often as those of a cluster do.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "cluster/fan.h"
#include "cluster/gossip.h"
#include "host/net/http.h"
#include "host/text/json.h"
#include "host/net/key.h"
#include "host/net/stream.h"
#include "host/net/tls.h"

#define CLUSTER "default"
#define RANKS_EACH 8
#define PERIOD_S 5
#define SLOW_S 120

struct node {
    int number, listener;
    char id[PB_MEMBER_ID];
};

struct connection {
    struct node *node;
    struct pb_stream io;
    char *data; /* head and body */
    size_t len;
};

/* Set once, before the threads. */
static const char *folder;
static struct node *nodes;
static int count, first_port;
static struct pb_key key;
static struct pb_tls_context *tls;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pb_members members; /* called with the lock held; self is that node that is at work */

/* What node N says that it runs, when the file claim-N says so. */
static void read_claim(int number, struct pb_member_job *ret)
{
    char path[300];
    ssize_t n;
    int fd;

    snprintf(path, sizeof path, "%s/claim-%d", folder, number);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    n = read(fd, ret->ranks, sizeof ret->ranks - 1);
    ret->ranks[n > 0 ? n : 0] = '\0';
    close(fd);
}

static void add_member(int number)
{
    struct pb_member one = {.generation = 1000, .version = 1, .protocol = PB_GOSSIP_PROTOCOL,
                            .nat = 1, .njobs = 1};

    snprintf(one.id, sizeof one.id, "%016x", number + 1);
    snprintf(one.host, sizeof one.host, "sim-%03d", number);
    snprintf(one.software, sizeof one.software, "0.1.0");
    snprintf(one.at[0], sizeof one.at[0], "127.0.0.1:%d", first_port + number);
    one.jobs = calloc(1, sizeof *one.jobs);
    strcpy(one.jobs->key, "10.0.0.1:29500");
    strcpy(one.jobs->script, "train.py");
    snprintf(one.jobs->ranks, sizeof one.jobs->ranks, "%d-%d", RANKS_EACH * number,
             RANKS_EACH * number + RANKS_EACH - 1);
    read_claim(number, one.jobs);
    one.jobs->world = (uint32_t)(RANKS_EACH * count);
    memcpy(nodes[number].id, one.id, sizeof one.id);
    pb_members_merge(&members, &one, true, pb_clock_ns());
}

static bool find_key(const char *id, struct pb_key *ret, void *arg)
{
    (void)arg;
    *ret = key;
    return strcmp(id, key.id) == 0;
}

static bool has_mode(int number, const char *mode)
{
    char path[300], said[16] = "";
    int fd;

    snprintf(path, sizeof path, "%s/mode-%d", folder, number);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    if (read(fd, said, sizeof said - 1) < 0)
        said[0] = '\0';
    close(fd);
    return strncmp(said, mode, strlen(mode)) == 0;
}

static void wait_for(struct connection *c, short wanted)
{
    struct pollfd p = {c->io.fd, pb_stream_events(&c->io, wanted), 0};

    poll(&p, 1, 10000);
}

static bool send_all(struct connection *c, const char *data, size_t len)
{
    while (len) {
        ssize_t n = pb_stream_send(&c->io, data, len);

        if (n > 0) {
            data += n;
            len -= (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            wait_for(c, POLLOUT);
        } else {
            return false;
        }
    }
    return true;
}

/* All of a request; the head is parsed in a copy. */
static bool receive(struct connection *c, struct pb_http_head *head, char **copy, size_t *body)
{
    for (;;) {
        ssize_t n = pb_stream_recv(&c->io, c->data + c->len, (PB_HTTP_BODY_MAX >> 4) - c->len);
        long at;

        if (n < 0 && errno == EAGAIN) {
            wait_for(c, POLLIN);
            continue;
        }
        if (n <= 0)
            return false;
        c->len += (size_t)n;
        free(*copy);
        *copy = malloc(c->len + 1);
        memcpy(*copy, c->data, c->len);
        (*copy)[c->len] = '\0';
        at = pb_http_parse(head, *copy, c->len, true);
        if (at < 0)
            return false;
        if (at > 0 && (head->length < 0 || c->len >= (size_t)at + (size_t)head->length)) {
            *body = (size_t)at;
            return true;
        }
    }
}

static void reply(struct connection *c, int status, const char *type, const char *data, size_t len)
{
    char head[200];
    int n = snprintf(head, sizeof head,
                     "HTTP/1.1 %d X\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                     "Connection: close\r\n\r\n", status, type, len);

    if (send_all(c, head, (size_t)n))
        send_all(c, data, len);
}

static void answer_gossip(struct connection *c, const struct pb_json *asked)
{
    static const char reached[] = "{\"reached\":true}";
    struct node *n = c->node;
    struct pb_buf b = PB_BUF_INIT;

    if (pb_json_get(asked, "probe")) {
        reply(c, 200, "application/json", reached, sizeof reached - 1);
        return;
    }
    pthread_mutex_lock(&lock);
    memcpy(members.self, n->id, sizeof n->id);
    pb_gossip_take(&members, asked, pb_clock_ns());
    pb_gossip_answer(&b, &members, CLUSTER, asked, "127.0.0.1", pb_clock_wall_ns());
    pthread_mutex_unlock(&lock);
    reply(c, 200, "application/json", b.data, b.len);
    pb_buf_finish(&b);
}

static uint64_t hash_of(const char *text)
{
    uint64_t h = 1469598103934665603u;

    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h;
}

static void ask_for_answers(const char *sql, uint64_t hash)
{
    char path[300];
    int fd;

    snprintf(path, sizeof path, "%s/%016llx.sql", folder, (unsigned long long)hash);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    if (write(fd, sql, strlen(sql)) < 0)
        perror(path);
    close(fd);
}

static void answer_query(struct connection *c, const struct pb_json *asked)
{
    const char *sql = pb_json_str(asked, "sql", "");
    static const char unknown[] = "{\"error\":{\"code\":\"failed\",\"message\":\"no answer yet\"}}";
    char path[300];
    struct stat st;
    uint64_t hash = hash_of(sql);
    char *data;
    int fd;

    snprintf(path, sizeof path, "%s/%016llx/%d.parquet", folder, (unsigned long long)hash,
             c->node->number);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        ask_for_answers(sql, hash);
        reply(c, 500, "application/json", unknown, sizeof unknown - 1);
        return;
    }
    data = malloc((size_t)st.st_size + 1);
    if (read(fd, data, (size_t)st.st_size) == st.st_size)
        reply(c, 200, "application/vnd.apache.parquet", data, (size_t)st.st_size);
    free(data);
    close(fd);
}

static void answer(struct connection *c)
{
    struct pb_http_head head;
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_json asked;
    char *copy = NULL;
    size_t body = 0;

    if (receive(c, &head, &copy, &body) &&
        pb_json_parse(&a, copy + body, c->len - body, &asked, NULL) == 0) {
        if (strcmp(head.path, "/api/cluster/gossip") == 0) {
            answer_gossip(c, &asked);
        } else {
            if (has_mode(c->node->number, "slow"))
                sleep(SLOW_S);
            answer_query(c, &asked);
        }
    }
    free(copy);
    pb_arena_finish(&a);
}

static void *serve_one(void *arg)
{
    struct connection *c = arg;
    int rc = 1;

    while (has_mode(c->node->number, "hang"))
        sleep(1);
    c->io.tls = pb_tls_accept(tls, c->io.fd, NULL);
    while (c->io.tls && (rc = pb_tls_handshake(c->io.tls, NULL)) > 0)
        wait_for(c, POLLIN);
    if (rc == 0) {
        c->data = malloc(PB_HTTP_BODY_MAX >> 4);
        answer(c);
        free(c->data);
    }
    pb_stream_close(&c->io);
    free(c);
    return NULL;
}

static void *listen_for(void *arg)
{
    struct node *n = arg;
    pthread_attr_t attr;
    pthread_t thread;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 << 10);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    for (;;) {
        int fd = accept4(n->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        struct connection *c;

        if (fd < 0 || has_mode(n->number, "gone")) {
            close(fd);
            continue;
        }
        c = calloc(1, sizeof *c);
        c->node = n;
        c->io.fd = fd;
        if (pthread_create(&thread, &attr, serve_one, c) != 0) {
            close(fd);
            free(c);
        }
    }
    return NULL;
}

static int take_nothing(const void *data, size_t len, void *arg, struct pb_err *err)
{
    (void)data, (void)len, (void)arg, (void)err;
    return 0;
}

/* What a node of such a cluster hears: on the average one talk in each period. */
static void *talk_to(void *asker)
{
    for (unsigned i = 0;; i++) {
        struct node *n = &nodes[i % (unsigned)count];
        struct pb_gossip_question q = {.cluster = CLUSTER, .from = n->id,
                                       .port = first_port + n->number};
        struct pb_fan_one one = {.address = asker, .sink = take_nothing};
        struct pb_buf b = PB_BUF_INIT;
        struct pb_fan_request r = {.method = "POST", .path = "/api/cluster/gossip", .key = &key,
                                   .deadline_ns = pb_clock_ns() + 3000000000ull};

        sleep(PERIOD_S);
        pthread_mutex_lock(&lock);
        memcpy(members.self, n->id, sizeof n->id);
        pb_gossip_ask(&b, &members, &q);
        pthread_mutex_unlock(&lock);
        r.body = b.data;
        r.body_len = b.len;
        pb_fan_ask(&one, 1, &r);
        pb_buf_finish(&b);
    }
    return NULL;
}

static int open_port(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 64) < 0) {
        perror("bind");
        exit(1);
    }
    return fd;
}

int main(int argc, char **argv)
{
    struct pb_err err = {0};
    pthread_t thread;

    if (argc < 5)
        return 2;
    folder = argv[1];
    count = atoi(argv[2]);
    first_port = atoi(argv[3]);
    tls = pb_tls_server(find_key, &err);
    if (!tls || pb_key_of_token(&key, argv[4], &err) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    nodes = calloc((size_t)count, sizeof *nodes);
    for (int i = 0; i < count; i++) {
        struct node *n = &nodes[i];

        n->number = i;
        add_member(i);
        n->listener = open_port(first_port + i);
        if (pthread_create(&thread, NULL, listen_for, n) != 0)
            return 1;
    }
    if (argc > 5 && pthread_create(&thread, NULL, talk_to, argv[5]) != 0)
        return 1;
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}
