#include "host/net/agent_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/home.h"
#include "base/settings.h"
#include "host/text/alloc.h"
#include "host/process/proc.h"

#define NS_PER_MS 1000000ull
#define FOLDERS_MAX 8

/*
 * Looks for <leaf> in the folders of a user below <prefix><root>; -1 when it is not there. There is
 * one, two where somebody has taken the first name; who makes thousands is not searched for long.
 */
static int open_home(const char *prefix, const char *root, uid_t name, uid_t owner,
                     const char *leaf)
{
    char below[PB_HOME_MAX], path[PB_HOME_MAX] = "";
    int user, fd = -1;

    snprintf(below, sizeof below, "%s%s", prefix, root);
    for (int i = 0; i < FOLDERS_MAX && fd < 0 &&
                    (user = pb_home_next(path, below, name, owner)) >= 0; i++) {
        fd = openat(user, leaf, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(user);
        if (fd >= 0 && pb_home_check(fd, owner) < 0) {
            close(fd);
            fd = -1;
        }
    }
    return fd;
}

/*
 * The folder of the agent in this process, seen from here; -1 when there is none. It bears the uid
 * that the process had when the agent came; what was root may have become anybody since.
 */
static int find_home(pid_t pid)
{
    struct pb_proc_status status;
    char root_of[32], leaf[64];
    const char *prefixes[] = {root_of, ""};
    int fd = -1;

    if (pb_proc_status(&status, pid, NULL) < 0)
        return -1;
    snprintf(root_of, sizeof root_of, "/proc/%d/root", (int)pid);
    snprintf(leaf, sizeof leaf, "%d-%llu", (int)status.ns_pid,
             (unsigned long long)pb_home_start_time(pid));
    const uid_t owners[] = {status.euid, status.uid, status.suid, 0};

    for (int o = 0; o < 4 && fd < 0; o++) {
        uid_t names[] = {owners[o], pb_proc_inner_uid(pid, owners[o])};

        for (int p = 0; p < 2 && fd < 0; p++)
            for (int n = 0; n < (names[0] == names[1] ? 1 : 2) && fd < 0; n++)
                for (size_t i = 0; pb_home_roots[i] && fd < 0; i++)
                    fd = open_home(prefixes[p], pb_home_roots[i], names[n], owners[o], leaf);
        while (o < 3 && (owners[o + 1] == owners[o] || owners[o + 1] == owners[0]))
            o++;
    }
    return fd;
}

/* Whoever listens must be the process itself, not one that put a socket in its place. */
static bool is_process(int fd, pid_t pid)
{
    struct ucred who;
    socklen_t len = sizeof who;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 && who.pid == pid;
}

static int connect_home(pid_t pid, struct pb_err *err)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int home = find_home(pid), fd;

    if (home < 0)
        return pb_err_set(err, PB_NO_TARGET, "%d: no probes in this process", (int)pid);
    snprintf(at.sun_path, sizeof at.sun_path, "/proc/self/fd/%d/" PB_HOME_SOCKET, home);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        pb_err_set(err, PB_FAIL, "socket: %s", strerror(errno));
    } else if (connect(fd, (struct sockaddr *)&at, sizeof at) < 0) {
        if (errno == ECONNREFUSED || errno == ENOENT)
            pb_err_set(err, PB_NO_TARGET, "%d: no probes in this process", (int)pid);
        else if (errno == EAGAIN)
            pb_err_set(err, PB_TIMEOUT, "%d: the agent does not answer", (int)pid);
        else
            pb_err_set(err, PB_FAIL, "%d: agent: %s", (int)pid, strerror(errno));
    } else if (!is_process(fd, pid)) {
        pb_err_set(err, PB_DENIED, "%d: another process listens in the agent's place", (int)pid);
    } else {
        close(home);
        return fd;
    }
    if (fd >= 0)
        close(fd);
    close(home);
    return -1;
}

bool pb_agent_present(pid_t pid)
{
    int fd = connect_home(pid, NULL);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

pid_t pb_agent_thread(pid_t pid, struct pb_arena *a)
{
    struct pb_proc_stat st;
    pid_t *tids;
    int n = pb_proc_threads(pid, a, &tids, NULL);

    for (int i = 0; i < n; i++)
        if (tids[i] != pid && pb_proc_stat(&st, pid, tids[i], NULL) == 0 &&
            strcmp(st.comm, "probing") == 0)
            return tids[i];
    return 0;
}

/* Waits for the socket; 0 is forever. */
static int wait_for(const struct pb_agent *a, short events, uint64_t deadline, struct pb_err *err)
{
    for (;;) {
        struct pollfd p = {.fd = a->fd, .events = events};
        uint64_t now = pb_clock_ns();
        int ms = -1, rc;

        if (deadline && now >= deadline)
            return pb_err_set(err, PB_TIMEOUT, "the agent does not answer");
        if (deadline)
            ms = (int)((deadline - now) / NS_PER_MS) + 1;
        rc = poll(&p, 1, ms);
        if (rc > 0)
            return 0;
        if (rc < 0 && errno != EINTR)
            return pb_err_set(err, PB_FAIL, "poll: %s", strerror(errno));
    }
}

static int send_all(struct pb_agent *a, const void *data, size_t len, uint64_t deadline,
                    struct pb_err *err)
{
    const char *p = data;

    while (len) {
        ssize_t n = send(a->fd, p, len, MSG_NOSIGNAL);

        if (n > 0) {
            p += n;
            len -= (size_t)n;
        } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
            return pb_err_set(err, PB_FAIL, "the agent closed the connection");
        } else if (wait_for(a, POLLOUT, deadline, err) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Reads one whole message; the body is *buf, which grows as needed. */
static int receive(struct pb_agent *a, struct pb_wire_in *in, unsigned char **buf, size_t *cap,
                   uint64_t deadline, struct pb_err *err)
{
    pb_wire_next(in);
    for (;;) {
        size_t len;
        void *to = pb_wire_buffer(in, &len);
        ssize_t n = read(a->fd, to, len);
        enum pb_wire_step step;

        if (n == 0)
            return pb_err_set(err, PB_FAIL, "the agent closed the connection");
        if (n < 0) {
            if (errno != EAGAIN && errno != EINTR)
                return pb_err_set(err, PB_FAIL, "the connection broke: %s", strerror(errno));
            if (wait_for(a, POLLIN, deadline, err) < 0)
                return -1;
            continue;
        }
        step = pb_wire_received(in, (size_t)n, false);
        if (step == PB_WIRE_BAD)
            return pb_err_set(err, PB_FAIL, "the agent speaks another protocol");
        if (step == PB_WIRE_BODY) {
            if (in->head.len > *cap) {
                *buf = pb_alloc_resize(*buf, in->head.len);
                *cap = in->head.len;
            }
            in->body = *buf;
        }
        if (step == PB_WIRE_MESSAGE)
            return 0;
    }
}

static uint64_t deadline_in(int timeout_ms)
{
    return timeout_ms ? pb_clock_ns() + (uint64_t)timeout_ms * NS_PER_MS : 0;
}

static int read_hello(struct pb_agent *a, int timeout_ms, struct pb_err *err)
{
    struct pb_wire_in in;
    unsigned char *buf = NULL;
    size_t cap = 0;
    int rc = receive(a, &in, &buf, &cap, deadline_in(timeout_ms), err);

    if (rc == 0 && in.head.type != PB_WIRE_HELLO)
        rc = pb_err_set(err, PB_FAIL, "the agent speaks another protocol");
    if (rc == 0 && in.head.len)
        memcpy(a->hello, in.body, in.head.len);
    free(buf);
    return rc;
}

int pb_agent_open(struct pb_agent *a, pid_t pid, int timeout_ms, struct pb_err *err)
{
    *a = (struct pb_agent){.fd = -1, .next_id = 1};
    for (size_t i = 0; pb_home_roots[i]; i++)
        pb_home_sweep(pb_home_roots[i], geteuid(), NULL);
    a->fd = connect_home(pid, err);
    if (a->fd < 0)
        return -1;
    if (read_hello(a, timeout_ms, err) < 0) {
        pb_agent_close(a);
        return pb_err_prefix(err, "%d", (int)pid);
    }
    return 0;
}

int pb_agent_adopt(struct pb_agent *a, int fd, int timeout_ms, struct pb_err *err)
{
    int flags = fcntl(fd, F_GETFL);

    *a = (struct pb_agent){.fd = fd, .next_id = 1};
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        pb_err_set(err, PB_FAIL, "fcntl: %s", strerror(errno));
    else if (read_hello(a, timeout_ms, err) == 0)
        return 0;
    pb_agent_close(a);
    return -1;
}

void pb_agent_close(struct pb_agent *a)
{
    if (a->fd >= 0)
        close(a->fd);
    a->fd = -1;
}

static int send_question(struct pb_agent *a, enum pb_wire_type type, const void *head,
                         size_t head_len, const void *body, size_t body_len, uint64_t deadline,
                         struct pb_err *err)
{
    struct pb_wire_head h = {.magic = PB_WIRE_MAGIC, .type = (uint16_t)type, .id = a->next_id,
                             .len = (uint32_t)(head_len + body_len)};

    if (head_len + body_len > PB_WIRE_MAX)
        return pb_err_set(err, PB_USAGE, "longer than %u MB", PB_WIRE_MAX >> 20);
    a->interrupt = 0;
    a->asking = 1;
    if (send_all(a, &h, sizeof h, deadline, err) < 0 ||
        send_all(a, head, head_len, deadline, err) < 0 ||
        send_all(a, body, body_len, deadline, err) < 0)
        return -1;
    a->asking = 2;
    if (a->interrupt)
        pb_agent_interrupt(a);
    return 0;
}

/* Passes on what arrives until DONE; more than `most` bytes are no answer. */
static int read_answers(struct pb_agent *a, uint64_t most, uint64_t deadline, pb_agent_sink *sink,
                        void *arg, struct pb_arena *arena, enum pb_wire_result *ret_result,
                        const char **ret_why, struct pb_err *err)
{
    struct pb_wire_in in;
    struct pb_wire_done done;
    unsigned char *buf = NULL;
    size_t cap = 0;
    uint64_t said = 0;
    int rc;

    while ((rc = receive(a, &in, &buf, &cap, deadline, err)) == 0) {
        said += in.head.len;
        /* Who never stops talking is not waited for, either. */
        if (said > most || (deadline && pb_clock_ns() >= deadline)) {
            rc = said > most ? pb_err_set(err, PB_FAIL, "the agent says too much")
                             : pb_err_set(err, PB_TIMEOUT, "the agent does not end its answer");
            break;
        }
        if (in.head.id != a->next_id)
            continue; /* the end of a question that was given up */
        if (in.head.type == PB_WIRE_DONE)
            break;
        if (sink && in.head.len && in.head.type != PB_WIRE_HELLO)
            sink(in.head.type == PB_WIRE_ERR ? 2 : 1, in.body, in.head.len, arg);
    }
    if (rc == 0) {
        memcpy(&done, in.body, sizeof done);
        *ret_result = (enum pb_wire_result)done.result;
        if (ret_why)
            *ret_why = in.head.len > sizeof done
                           ? pb_arena_strndup(arena, (char *)in.body + sizeof done,
                                              in.head.len - sizeof done)
                           : NULL;
    }
    free(buf);
    return rc;
}

int pb_agent_ask(struct pb_agent *a, enum pb_wire_type type, const void *head, size_t head_len,
                 const void *body, size_t body_len, int timeout_ms, pb_agent_sink *sink, void *arg,
                 struct pb_arena *arena, enum pb_wire_result *ret_result, const char **ret_why,
                 struct pb_err *err)
{
    uint64_t deadline = deadline_in(timeout_ms);
    int rc = send_question(a, type, head, head_len, body, body_len, deadline, err);

    if (rc == 0)
        rc = read_answers(a, type == PB_WIRE_EVAL ? UINT64_MAX : PB_AGENT_ANSWER_MAX, deadline,
                          sink, arg, arena, ret_result, ret_why, err);
    a->asking = 0;
    a->next_id++;
    return rc;
}

/* The process may be a stranger's: a number out of bounds would be waited for without end. */
int pb_agent_eval_ms(const struct pb_agent *a)
{
    const struct pb_setting *s = &pb_setting_list[PB_SET_EVAL_TIMEOUT];
    const char *said = strstr(a->hello, "timeout_ms=");
    long long ms = said ? strtoll(said + strlen("timeout_ms="), NULL, 10) : 0;

    return (int)(ms >= s->min && ms <= s->max ? ms : s->default_value);
}

void pb_agent_interrupt(struct pb_agent *a)
{
    struct pb_wire_head h = {.magic = PB_WIRE_MAGIC, .type = PB_WIRE_INTERRUPT, .id = a->next_id};

    /* In the middle of a question another head would be taken for a part of it. */
    a->interrupt = 1;
    if (a->asking == 2)
        send(a->fd, &h, sizeof h, MSG_NOSIGNAL | MSG_DONTWAIT);
}

char *pb_agent_value(const char *lines, const char *key, struct pb_arena *arena)
{
    size_t len = strlen(key);

    for (const char *line = lines, *end; line && *line; line = end ? end + 1 : NULL) {
        end = strchr(line, '\n');
        if (strncmp(line, key, len) == 0 && line[len] == '=')
            return pb_arena_strndup(arena, line + len + 1, strcspn(line + len + 1, "\n"));
    }
    return NULL;
}
