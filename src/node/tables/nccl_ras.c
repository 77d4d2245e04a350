/*
 * nccl.ras - the communicators of NCCL as its RAS service knows them: a row for each rank.
 *
 * NCCL (2.24 and later) has a service in one process of each machine that knows the whole job: it
 * listens on port 28028 of this machine, or the port of NCCL_RAS_ADDR. It is asked only where a
 * process in scope has NCCL loaded or that variable in its environment. Older versions answer with
 * a text instead of JSON: that is one row with the text as it is.
 *
 * Only our own user's processes are asked for their port, and only our own user's services are
 * connected to: a target of somebody else does not choose whom we call.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/text/buf.h"
#include "host/net/http_dial.h"
#include "host/text/json.h"
#include "host/text/json_write.h"
#include "host/process/proc.h"
#include "node/tables/read/common.h"

#define PORT 28028
#define PORTS_MAX 16
#define WAIT_MS 5000 /* the service asks all its peers; it is told to give up before that */
#define ANSWER_MAX (32u << 20)

static pb_live_fill fill;

#define COLUMNS(X)                                                                                 \
    X(comm, NAME, "", "communicator: the same on all its ranks")                                   \
    X(comm_size, INT, "", "ranks of the communicator")                                             \
    X(comm_rank, INT, "", "rank in the communicator")                                              \
    X(state, NAME, "", "init, running, finalize, abort; missing: unresponsive, dead, unknown")     \
    X(async_error, INT, "", "number of NCCL's error, 0 for none")                                  \
    X(collectives, INT, "", "operations begun so far, all kinds together")                         \
    X(counts, TEXT, "", "operations begun so far by kind, as JSON")                                \
    X(device, INT, "", "GPU, as CUDA numbers it in its process")                                   \
    X(address, NAME, "", "machine of the rank, as NCCL knows it")                                  \
    X(version, NAME, "", "version of NCCL")                                                        \
    X(report, TEXT, "", "NCCL's own text, where it has no JSON")                                   \
    PB_LIVE_COMMON(X)

PB_TABLE_COLUMNS(COLUMNS);

const struct pb_live pb_live_nccl_ras = {
    PB_TABLE_SPEC("nccl.ras",
                  "communicators of NCCL and the state of their ranks, by its RAS service"),
    .fill = fill,
};

struct answer {
    struct pb_node *node;
    const struct pb_scope *scope;
    const struct pb_live_process *processes;
    size_t count;
    struct pb_rows *rows;
    const char *version;
};

static bool send_line(int fd, const char *line)
{
    size_t len = strlen(line);

    return send(fd, line, len, MSG_NOSIGNAL) == (ssize_t)len;
}

/* More of the answer, until `until`; false at its end. */
static bool receive(int fd, struct pb_buf *text, uint64_t until)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    uint64_t now = pb_clock_ns();
    char piece[16384];
    ssize_t got;

    if (now >= until || poll(&p, 1, (int)((until - now) / 1000000) + 1) <= 0)
        return false;
    got = recv(fd, piece, sizeof piece, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (got <= 0 || text->len + (size_t)got > ANSWER_MAX)
        return false;
    pb_buf_add(text, piece, (size_t)got);
    return true;
}

/* One line is said, one line comes back; false when it is not the one that is hoped for. */
static bool request(int fd, const char *line, const char *hoped, uint64_t until)
{
    struct pb_buf text = PB_BUF_INIT;
    bool good = send_line(fd, line);

    while (good && (!text.data || !strchr(text.data, '\n')))
        good = receive(fd, &text, until);
    good = good && strncmp(text.data, hoped, strlen(hoped)) == 0;
    pb_buf_finish(&text);
    return good;
}

static bool ask_status(int fd, struct pb_buf *ret)
{
    uint64_t until = pb_clock_ns() + WAIT_MS * 1000000ull;

    if (!request(fd, "CLIENT PROTOCOL 2\n", "SERVER PROTOCOL", until) ||
        !request(fd, "TIMEOUT 3\n", "OK", until))
        return false;
    request(fd, "SET FORMAT json\n", "OK", until); /* or it stays with text */
    if (!send_line(fd, "VERBOSE STATUS\n"))
        return false;
    while (receive(fd, ret, until))
        ;
    return ret->len > 0;
}

static void add_common(const struct answer *a, struct pb_row_cell *row, int64_t pid)
{
    for (size_t i = 0; i < a->count; i++)
        if (a->processes[i].pid == pid) {
            pb_live_common(a->rows, row, a->node->host, (pid_t)pid, a->processes[i].rank);
            return;
        }
    pb_live_common(a->rows, row, NULL, (pid_t)pid, -1);
}

static const char *state_of(const struct pb_json *status, bool missing)
{
    if (missing)
        return pb_json_flag(status, "considered_dead", false) ? "dead"
               : pb_json_flag(status, "unresponsive", false)  ? "unresponsive"
                                                               : "unknown";
    if (pb_json_flag(status, "abort_flag", false))
        return "abort";
    if (pb_json_flag(status, "finalize_called", false) ||
        pb_json_flag(status, "destroy_flag", false))
        return "finalize";
    return pb_json_whole(status, "init_state", 0) == 0 ? "running" : "init";
}

static void add_counts(const struct answer *a, struct pb_row_cell *row, const struct pb_json *rank)
{
    const struct pb_json *counts = pb_json_get(rank, "collective_counts");
    struct pb_buf b = PB_BUF_INIT;
    int64_t sum = 0;

    if (!counts || counts->type != PB_J_OBJECT)
        return;
    pb_buf_putc(&b, '{');
    for (size_t i = 0; i < counts->n; i++) {
        if (counts->items[i].type != PB_J_INT)
            continue;
        sum += counts->items[i].v.i;
        if (counts->items[i].v.i) {
            pb_json_key(&b, counts->items[i].key);
            pb_json_int(&b, counts->items[i].v.i);
        }
    }
    pb_buf_putc(&b, '}');
    pb_rows_int(row, AT_collectives, sum);
    pb_rows_text(a->rows, row, AT_counts, b.data);
    pb_buf_finish(&b);
}

static void add_rank(const struct answer *a, const struct pb_json *comm,
                     const struct pb_json *rank, bool missing)
{
    const struct pb_json *status = pb_json_get(rank, "status");
    int64_t pid = pb_json_whole(rank, "pid", 0);
    struct pb_row_cell *row;

    if (!pb_live_in_scope(a->scope, (pid_t)pid))
        return;
    row = pb_rows_add(a->rows);
    pb_rows_text(a->rows, row, AT_comm, pb_json_str(comm, "hash", NULL));
    pb_rows_int(row, AT_comm_size, pb_json_whole(comm, "size", 0));
    pb_rows_int(row, AT_comm_rank, pb_json_whole(rank, "rank", 0));
    pb_rows_text(a->rows, row, AT_state, state_of(status, missing));
    if (!missing)
        pb_rows_int(row, AT_async_error, pb_json_whole(status, "async_error", 0));
    add_counts(a, row, rank);
    pb_rows_int(row, AT_device, pb_json_whole(rank, "cuda_dev", 0));
    pb_rows_text(a->rows, row, AT_address, pb_json_str(rank, "host", NULL));
    pb_rows_text(a->rows, row, AT_version, a->version);
    add_common(a, row, pid > 0 ? pid : 0);
}

static void add_ranks(const struct answer *a, const struct pb_json *comm, const char *key,
                      bool missing)
{
    const struct pb_json *list = pb_json_get(comm, key);

    for (size_t i = 0; list && list->type == PB_J_ARRAY && i < list->n; i++)
        add_rank(a, comm, &list->items[i], missing);
}

static void add_answer(struct answer *a, const struct pb_buf *text)
{
    struct pb_arena arena = PB_ARENA_INIT;
    const struct pb_json *comms;
    struct pb_err err = {0};
    struct pb_json json;

    if (pb_json_parse(&arena, text->data, text->len, &json, &err) < 0) {
        struct pb_row_cell *row = pb_rows_add(a->rows);

        pb_rows_text(a->rows, row, AT_report, text->data);
        pb_live_common(a->rows, row, a->node->host, 0, -1);
    } else {
        a->version = pb_json_str(&json, "nccl_version", NULL);
        comms = pb_json_get(&json, "communicators");
        for (size_t i = 0; comms && comms->type == PB_J_ARRAY && i < comms->n; i++) {
            add_ranks(a, &comms->items[i], "ranks", false);
            add_ranks(a, &comms->items[i], "missing_ranks", true);
        }
    }
    pb_arena_finish(&arena);
}

/* Port of the service that this process would be in, 0 for none or when it is not our user's. */
static int port_of(pid_t pid)
{
    struct pb_arena a = PB_ARENA_INIT;
    size_t len = 0;
    char *block, *maps, *colon;
    struct pb_proc_status st;
    int port = 0;

    if (pb_proc_status(&st, pid, NULL) < 0 || st.euid != geteuid())
        return 0;
    block = pb_proc_read(pid, "environ", &a, &len);

    for (char *s = block; s && s < block + len && !port; s += strlen(s) + 1)
        if (strncmp(s, "NCCL_RAS_ADDR=", 14) == 0 && (colon = strrchr(s, ':')))
            port = atoi(colon + 1);
    if (port <= 0 || port > 65535) {
        maps = pb_proc_read(pid, "maps", &a, &len);
        port = maps && strstr(maps, "libnccl") ? PORT : 0;
    }
    pb_arena_finish(&a);
    return port;
}

/* Is this line of /proc/net/tcp a socket of ours that listens on the port, on loopback or all? */
static bool is_own_listener(const char *line, int port)
{
    char address[33];
    unsigned at, state, uid;

    return sscanf(line, " %*[^:]: %32[0-9A-F]:%x %*x:%*x %x %*x:%*x %*x:%*x %*x %u", address, &at,
                  &state, &uid) == 4 &&
           state == 0x0a && at == (unsigned)port && uid == geteuid();
}

/* Does one of our user's processes listen on this port? */
static bool is_ours(const char *file, int port)
{
    FILE *f = fopen(file, "re");
    char line[512];
    bool found = false;

    while (f && !found && fgets(line, sizeof line, f))
        found = is_own_listener(line, port);
    if (f)
        fclose(f);
    return found;
}

static void ask(struct answer *a, int port)
{
    struct pb_buf text = PB_BUF_INIT;
    struct pb_err err = {0};
    char address[32];
    int fd;

    if (is_ours("/proc/self/net/tcp", port))
        snprintf(address, sizeof address, "127.0.0.1:%d", port);
    else if (is_ours("/proc/self/net/tcp6", port))
        snprintf(address, sizeof address, "[::1]:%d", port);
    else
        return;
    fd = pb_http_dial_tcp(address, WAIT_MS, &err);
    if (fd < 0)
        return;
    if (ask_status(fd, &text))
        add_answer(a, &text);
    close(fd);
    pb_buf_finish(&text);
}

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err)
{
    struct pb_arena arena = PB_ARENA_INIT;
    struct pb_live_process *v = NULL;
    size_t count = pb_live_processes(n, scope, wanted[AT_rank], &arena, &v);
    struct answer a = {.node = n, .scope = scope, .processes = v, .count = count, .rows = rows};
    int ports[PORTS_MAX], nports = 0;

    (void)err;
    for (size_t i = 0; i < count && nports < PORTS_MAX; i++) {
        int port = port_of(v[i].pid), k = 0;

        while (k < nports && ports[k] != port)
            k++;
        if (port && k == nports)
            ports[nports++] = port;
    }
    for (int i = 0; i < nports; i++)
        ask(&a, ports[i]);
    pb_arena_finish(&arena);
    return 0;
}
