#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "node/http/server.h"
#include "node/parts.h"
#include "node/peers/peers.h"
#include "node/peers/ranks.h"
#include "node/serve/lock.h"
#include "node/serve/memory.h"
#include "node/watchdog/cores.h"
#include "node/watchdog/deaths.h"
#include "node/watchdog/quarantine.h"
#include "node/watchdog/supervise.h"

#define KEEP_BYTES (8 << 20)
#define LOOK_MS 1000
#define COLLECT_EVERY_NS 60000000000ull
#define YIELD_EVERY_NS 3000000000ull
#define LOG_MAX (1 << 20)
#define GOODBYE_MS 1000
#define TRIM_AFTER_NS 2000000000ull

struct serving {
    const struct pb_serve_opts *opts;
    struct pb_err *err;
    struct pb_serve_paths paths;
    int lock, signals;
    pid_t pid; /* the supervisor's: the one that is shown */
    struct pb_journal *journal;
    struct pb_keeper *keeper;
    struct pb_node *node;
    struct pb_server *server;
    pthread_t warmer;
    bool warming;
    int listeners, active; /* numbers in the lock file */
    bool ready;
    cpu_set_t cores; /* cores that it could use when it started */
    uint64_t yielded_ns;
    uint64_t collected_ns;
    uint64_t trimmed_ns; /* the end of the request after which memory was given back */
    unsigned breaks; /* faults of the engine that the log has */
};

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A line in the log. */
static void say(const char *fmt, ...)
{
    char text[1024], when[40];
    time_t now = time(NULL);
    struct tm tm;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    localtime_r(&now, &tm);
    strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &tm);
    dprintf(STDERR_FILENO, "%s %d %s\n", when, (int)getpid(), text);
}

static void write_lock(struct serving *s)
{
    struct pb_serve_lock text = {.pid = s->pid, .listeners = s->listeners, .active = s->active,
                                 .ready = s->ready};

    snprintf(text.version, sizeof text.version, "%s", pb_node_version());
    snprintf(text.socket, sizeof text.socket, "%.127s", s->paths.socket);
    pb_serve_lock_write(s->lock, &text);
}

static void *warm(void *arg)
{
    struct serving *s = arg;
    struct pb_err err = {0};

    if (pb_sql_warm(s->node->sql, &err) < 0)
        say("%s", err.msg);
    return NULL;
}

static int open_addresses(struct serving *s)
{
    struct pb_listen w = s->opts->how;
    struct pb_arena a = PB_ARENA_INIT;
    char *lines = pb_arena_strdup(&a, s->opts->addresses), bound[160];
    int rc = 0;

    while (rc == 0 && (w.address = strsep(&lines, "\n"))) {
        if (!*w.address)
            continue;
        rc = pb_server_open(s->server, &w, bound, sizeof bound, s->err);
        if (rc == 0)
            s->opts->opened(s->opts->arg, bound);
    }
    pb_arena_finish(&a);
    return rc;
}

/* stderr becomes the log; whoever started us waits for that. */
static void open_log(struct serving *s)
{
    struct stat st;
    int fd;

    if (stat(s->paths.log, &st) == 0 && st.st_size > LOG_MAX && truncate(s->paths.log, 0) < 0)
        return;
    fd = open(s->paths.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(fd, STDERR_FILENO);
    close(fd);
}

/* Signals become readable; threads that are made from now on do not see them. */
static int catch_signals(struct serving *s)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return s->signals < 0 ? pb_err_set(s->err, PB_FAIL, "signalfd: %s", strerror(errno)) : 0;
}

static int start(struct serving *s, bool again)
{
    struct pb_node_opts o = {.data_dir = s->paths.data, .socket = s->paths.socket,
                             .background = true, .cores = pb_cores_half(&s->cores),
                             .journal = s->journal, .keeper = s->keeper};
    struct pb_peers_port port;
    uint64_t last;

    /* A heap of its own for each thread would cost more than it saves. */
    mallopt(M_ARENA_MAX, 2);
    /* Each query needs about as much as the last: to give it back in between costs page faults. */
    mallopt(M_TRIM_THRESHOLD, KEEP_BYTES);
    if (catch_signals(s) < 0 || pb_node_create(&s->node, &o, s->err) < 0)
        return -1;
    pb_serve_raise_files();
    pb_serve_limit_memory(pb_node_setting(s->node, PB_SET_QUERY_MEMORY));
    s->warming = pthread_create(&s->warmer, NULL, warm, s) == 0;
    pb_peers_expect(s->node->peers);
    if (pb_server_create(&s->server, s->node, s->paths.socket, s->err) < 0 ||
        (!again && open_addresses(s) < 0))
        return -1;
    pb_server_port(s->server, &port);
    pb_peers_resume(s->node->peers, &port);
    pb_server_activity(s->server, &s->active, &last, &s->listeners);
    s->ready = true;
    write_lock(s);
    return 0;
}

/* Does a process of ours with probes live? The node's own folder is none. */
static bool has_living(struct serving *s)
{
    struct pb_stores *stores = pb_discover_snapshot(s->node->discover, LOOK_MS);
    struct pb_arena a = PB_ARENA_INIT;
    bool found = false;

    for (size_t i = 0; i < stores->nstores && !found; i++)
        found = stores->stores[i]->process.live && stores->stores[i]->uid == geteuid() &&
                !pb_store_value(stores->stores[i]->meta, "role", &a);
    pb_stores_unref(stores);
    pb_arena_finish(&a);
    return found;
}

/* A node of a cluster is there for the ranks that run here, probed or not. */
static bool has_ranks(struct serving *s)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_rank *v;
    bool any = pb_peers_attached(s->node->peers) && pb_ranks_list(s->node->ranks, &a, &v) > 0;

    pb_arena_finish(&a);
    return any;
}

/* What queries needed goes back to the system when none has come for a while. */
static void give_memory_back(struct serving *s, int active, uint64_t last_ns)
{
    if (active || last_ns == s->trimmed_ns || pb_clock_ns() - last_ns < TRIM_AFTER_NS)
        return;
    s->trimmed_ns = last_ns;
    malloc_trim(0);
}

static void log_breaks(struct serving *s)
{
    struct pb_sql_break last;

    pb_sql_breaks(s->node->sql, &last);
    if (last.count != s->breaks)
        say("the SQL engine was started again after a fault of its own (%u so far): %s%s%s",
            last.count, last.why, *last.query ? "; in: " : "", last.query);
    s->breaks = last.count;
}

static bool is_unused(struct serving *s)
{
    uint64_t idle_ns = (uint64_t)pb_node_setting(s->node, PB_SET_SERVE_IDLE) * 1000000u, last;
    int active, listeners;

    pb_server_activity(s->server, &active, &last, &listeners);
    if (active != s->active || listeners != s->listeners) {
        s->active = active;
        s->listeners = listeners;
        write_lock(s);
    }
    give_memory_back(s, active, last);
    return s->opts->on_demand && !active && !listeners && pb_clock_ns() - last > idle_ns &&
           !has_living(s) && !has_ranks(s);
}

/* Why it ends. */
static const char *serve(struct serving *s)
{
    struct pollfd p[] = {{.fd = s->signals, .events = POLLIN},
                         {.fd = s->node->stop_fd, .events = POLLIN}};

    for (;;) {
        if (poll(p, 2, LOOK_MS) < 0 && errno != EINTR)
            return strerror(errno);
        if (p[0].revents)
            return "a signal";
        if (p[1].revents)
            return "it was told to";
        if (is_unused(s))
            return "nothing uses it";
        log_breaks(s);
        if (access(s->paths.socket, F_OK) < 0)
            return "its socket was removed";
        if (pb_clock_ns() - s->yielded_ns > YIELD_EVERY_NS) {
            pb_cores_yield(s->node->discover, &s->cores);
            s->yielded_ns = pb_clock_ns();
        }
        if (pb_clock_ns() - s->collected_ns > COLLECT_EVERY_NS) {
            pb_node_tidy(s->node);
            s->collected_ns = pb_clock_ns();
        }
    }
}

/* Whoever found the socket a moment ago is still answered; who comes now starts another node. */
static void say_goodbye(struct serving *s)
{
    uint64_t deadline = pb_clock_ns() + GOODBYE_MS * 1000000ull, last;
    int active = 1, listeners;

    unlink(s->paths.socket);
    for (int calm = 0; calm < 3 && pb_clock_ns() < deadline; calm = active ? 0 : calm + 1) {
        usleep(10000);
        pb_server_activity(s->server, &active, &last, &listeners);
    }
}

static void finish(struct serving *s)
{
    if (s->server)
        say_goodbye(s);
    if (s->warming)
        pthread_join(s->warmer, NULL);
    pb_server_destroy(s->server);
    pb_node_destroy(s->node);
    if (s->signals >= 0)
        close(s->signals);
}

/* The process that answers. again: another one died before it, and its addresses are open. */
static int run_server(struct serving *s, bool again)
{
    const char *why;

    /* Whoever needed it first may be pinned to a core; a user who starts it says where himself. */
    pb_cores_find(s->opts->on_demand, &s->cores);
    pb_cores_bind(&s->cores);
    pb_deaths_watch(s->journal);
    pb_stalls_use(pb_journal_stalls(s->journal));
    if (start(s, again) == 0) {
        if (s->opts->on_demand && !again)
            open_log(s);
        pb_journal_set_ready(s->journal, true);
        say("probing %s serves %s on %s", pb_node_version(), s->paths.data, s->paths.socket);
        s->collected_ns = pb_clock_ns();
        why = serve(s);
        pb_journal_set_ended(s->journal);
        say("ends: %s", why);
    }
    finish(s);
    return s->err->code != PB_OK ? -1 : 0;
}

/* In the supervisor: whoever waits at the other end of stderr waits for the server. */
static void close_callers_stderr(void *arg)
{
    struct serving *s = arg;

    if (s->opts->on_demand)
        open_log(s);
}

/* Of the supervisor, when no server is left. The name goes unless another node has taken it. */
static void leave(struct serving *s, const struct stat *door)
{
    char folder[PATH_MAX];
    struct stat now;

    if (lstat(s->paths.socket, &now) == 0 && now.st_ino == door->st_ino &&
        now.st_dev == door->st_dev)
        unlink(s->paths.socket);
    snprintf(folder, sizeof folder, "%s", s->paths.socket);
    *strrchr(folder, '/') = '\0';
    rmdir(folder); /* agents may still use it */
}

static void set_aside(const struct pb_ring_identity *ring, const char *why, void *arg)
{
    struct serving *s = arg;

    say("a ring is set aside: it ended the server (%s)", why);
    pb_quarantine_add(s->paths.data, ring, why);
}

static int supervise(struct serving *s)
{
    struct pb_supervised v = {.started = close_callers_stderr, .guilty = set_aside, .say = say,
                              .arg = s};
    struct stat door = {0};
    int fd, role = -1, status = 0;

    if (pb_serve_socket_folder(s->paths.socket, s->err) < 0)
        return -1;
    fd = pb_server_bind(s->paths.socket, s->err);
    if (fd < 0)
        return -1;
    lstat(s->paths.socket, &door);
    s->pid = getpid();
    write_lock(s);
    v.journal = s->journal = pb_journal_create();
    v.keeper = s->keeper = pb_keeper_create();
    if (!s->journal || !s->keeper) {
        pb_err_set(s->err, PB_FAIL, "no memory");
        close(fd);
    } else {
        pb_keeper_hold(s->keeper, 0, fd);
        role = pb_supervise(&v, &status, s->err);
    }
    if (role == PB_ROLE_SERVER || role == PB_ROLE_SUCCESSOR)
        role = run_server(s, role == PB_ROLE_SUCCESSOR);
    else
        leave(s, &door);
    pb_keeper_destroy(s->keeper);
    pb_journal_destroy(s->journal);
    if (status)
        _exit(status); /* the server has said why */
    return role < 0 ? -1 : 0;
}

int pb_serve_run(const struct pb_serve_opts *o, struct pb_err *err)
{
    struct serving s = {.opts = o, .err = err, .lock = -1, .signals = -1};
    int rc;

    umask(077);
    prctl(PR_SET_NAME, "probing-node"); /* it was started as /proc/self/exe */
    if (pb_serve_paths_find(&s.paths, err) < 0 || pb_serve_data_folder(s.paths.data, err) < 0)
        return -1;
    rc = pb_serve_lock_acquire(&s.paths, &s.lock, err);
    if (rc == 1 && !o->on_demand)
        rc = pb_err_set(err, PB_FAIL,
                        "a node is running for %s already. End it with: probing serve --stop",
                        s.paths.data);
    if (rc == 0)
        rc = supervise(&s);
    if (s.lock >= 0)
        close(s.lock);
    return rc < 0 || err->code != PB_OK ? -1 : 0;
}
