#include "cli/serveloop.h"

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
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/nodelink.h"
#include "cli/nodestart.h"
#include "cli/servelock.h"
#include "cli/supervise.h"
#include "host/proc.h"
#include "node/cores.h"
#include "node/http/server.h"
#include "node/node.h"

#define KEEP_BYTES (8 << 20)
#define LOOK_MS 1000
#define COLLECT_EVERY_NS 60000000000ull
#define YIELD_EVERY_NS 3000000000ull
#define LOG_MAX (1 << 20)
#define GOODBYE_MS 1000
#define TRIM_AFTER_NS 2000000000ull
#define BESIDE_BYTES ((rlim_t)2 << 30)

struct serving {
    struct pb_ctx *ctx;
    bool on_demand;
    struct pb_nodeplace place;
    int lock, signals;
    pid_t pid; /* the supervisor's: the one that is shown */
    struct pb_journal *journal;
    struct pb_keeper *keeper;
    struct pb_node *node;
    struct pb_server *server;
    pthread_t warmer;
    bool warming;
    int listeners, active; /* as the lock file says */
    cpu_set_t cores; /* that it could use when it started */
    uint64_t yielded_ns;
    uint64_t collected_ns;
    uint64_t trimmed_ns; /* the end of the request after which memory was given back */
};

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A line in the log. */
static void say(const char *fmt, ...)
{
    char text[512], when[40];
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
    struct pb_nodelock text = {.pid = s->pid, .listeners = s->listeners, .active = s->active};

    snprintf(text.version, sizeof text.version, "%s", pb_node_version());
    snprintf(text.socket, sizeof text.socket, "%.127s", s->place.socket);
    pb_servelock_write(s->lock, &text);
}

static void *warm(void *arg)
{
    struct serving *s = arg;
    struct pb_err err = {0};

    if (pb_sql_warm(s->node->sql, &err) < 0)
        say("%s", err.msg);
    return NULL;
}

static int listen_on(struct serving *s, const char *addresses, bool no_token)
{
    char *lines = pb_arena_strdup(&s->ctx->arena, addresses), *line;
    struct pb_listen w = {.no_token = no_token};
    char bound[160];

    if (pb_nodelink_token(s->ctx, &w.token) < 0)
        return -1;
    while ((line = strsep(&lines, "\n"))) {
        if (!*line)
            continue;
        w.address = line;
        if (pb_server_open(s->server, &w, bound, sizeof bound, &s->ctx->err) < 0)
            return -1;
        pb_nodestart_say(s->ctx, bound, no_token);
    }
    return 0;
}

/* stderr becomes the log; whoever started us waits for that. */
static void open_log(struct serving *s)
{
    struct stat st;
    int fd;

    if (stat(s->place.log, &st) == 0 && st.st_size > LOG_MAX && truncate(s->place.log, 0) < 0)
        return;
    fd = open(s->place.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
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
    return s->signals < 0 ? pb_err_set(&s->ctx->err, PB_FAIL, "signalfd: %s", strerror(errno)) : 0;
}

/* Private memory as the limit counts it: the 6th number of statm, in pages. */
static rlim_t data_bytes(struct serving *s)
{
    size_t len = 0;
    char *p = pb_proc_read(getpid(), "statm", &s->ctx->arena, &len);

    for (int i = 1; p && i < 6; i++)
        p = strchr(p + (i > 1), ' ');
    return p ? strtoull(p, NULL, 10) * (rlim_t)sysconf(_SC_PAGESIZE) : 0;
}

/*
 * The engine's own limit does not count the text that a function such as repeat() makes. What is
 * left beside it is for threads' stacks and our own tables. A process that maps more than that for
 * other ends, as sanitizers do, cannot be held by it.
 */
static void limit_memory(struct serving *s)
{
    rlim_t most = ((rlim_t)pb_node_setting(s->node, PB_SET_QUERY_MEMORY) << 20) + BESIDE_BYTES;
    struct rlimit r;

    if (data_bytes(s) < most && getrlimit(RLIMIT_DATA, &r) == 0 &&
        (r.rlim_cur == RLIM_INFINITY || r.rlim_cur > most)) {
        r.rlim_cur = most;
        setrlimit(RLIMIT_DATA, &r);
    }
}

static int start(struct serving *s, const char *addresses, bool no_token)
{
    struct pb_node_opts o = {.data_dir = s->place.data, .background = true,
                             .journal = s->journal, .keeper = s->keeper};
    struct pb_err *err = &s->ctx->err;

    /* A heap of its own for each thread would cost more than it saves. */
    mallopt(M_ARENA_MAX, 2);
    /* Each query needs about as much as the last: to give it back in between costs page faults. */
    mallopt(M_TRIM_THRESHOLD, KEEP_BYTES);
    if (catch_signals(s) < 0 || pb_node_create(&s->node, &o, err) < 0)
        return -1;
    limit_memory(s);
    s->warming = pthread_create(&s->warmer, NULL, warm, s) == 0;
    if (pb_server_create(&s->server, s->node, s->place.socket, err) < 0 ||
        listen_on(s, addresses, no_token) < 0)
        return -1;
    write_lock(s);
    return 0;
}

/* Does a process of ours with probes live? The node's own folder is none. */
static bool has_living(struct serving *s)
{
    struct pb_stores *stores = pb_discover_take(s->node->discover, LOOK_MS);
    struct pb_arena a = PB_ARENA_INIT;
    bool found = false;

    for (size_t i = 0; i < stores->nstores && !found; i++)
        found = stores->stores[i]->process.live && stores->stores[i]->uid == geteuid() &&
                !pb_store_value(stores->stores[i]->meta, "role", &a);
    pb_stores_drop(stores);
    pb_arena_finish(&a);
    return found;
}

/* What queries needed goes back to the system when none has come for a while. */
static void give_memory_back(struct serving *s, int active, uint64_t last_ns)
{
    if (active || last_ns == s->trimmed_ns || pb_clock_ns() - last_ns < TRIM_AFTER_NS)
        return;
    s->trimmed_ns = last_ns;
    malloc_trim(0);
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
    return s->on_demand && !active && !listeners && pb_clock_ns() - last > idle_ns &&
           !has_living(s);
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
        if (access(s->place.socket, F_OK) < 0)
            return "its socket was removed";
        if (pb_clock_ns() - s->yielded_ns > YIELD_EVERY_NS) {
            pb_cores_yield(s->node, &s->cores);
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

    unlink(s->place.socket);
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

/* Dying: says which thread it is that dies, and goes on dying. */
static struct pb_journal *dying_journal;

static void on_death(int signo)
{
    pb_journal_dying(dying_journal);
    raise(signo); /* the default action by now */
}

static void note_deaths(struct serving *s)
{
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE};
    struct sigaction act = {.sa_handler = on_death, .sa_flags = (int)SA_RESETHAND | SA_NODEFER};
    struct sigaction now;

    dying_journal = s->journal;
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
        if (sigaction(deadly[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL)
            sigaction(deadly[i], &act, NULL); /* a sanitizer has handlers of its own */
}

/* The process that answers. again: another one died before it, and its addresses are open. */
static int run_server(struct serving *s, const char *addresses, bool no_token, bool again)
{
    const char *why;

    /* Whoever needed it first may be pinned to a core; a user who starts it says where himself. */
    pb_cores_find(s->on_demand, &s->cores);
    note_deaths(s);
    if (start(s, again ? "" : addresses, no_token) == 0) {
        pb_print_flush(&s->ctx->out, NULL);
        if (s->on_demand && !again)
            open_log(s);
        pb_journal_set_ready(s->journal, true);
        say("probing %s serves %s on %s", pb_node_version(), s->place.data, s->place.socket);
        s->collected_ns = pb_clock_ns();
        why = serve(s);
        pb_journal_set_ended(s->journal);
        say("ends: %s", why);
    }
    finish(s);
    return s->ctx->err.code != PB_OK ? -1 : 0;
}

/* In the supervisor: whoever waits at the other end of stderr waits for the server. */
static void let_go(void *arg)
{
    struct serving *s = arg;

    if (s->on_demand)
        open_log(s);
}

/* Of the supervisor, when no server is left. The name goes unless another node has taken it. */
static void leave(struct serving *s, const struct stat *door)
{
    char folder[PATH_MAX];
    struct stat now;

    if (lstat(s->place.socket, &now) == 0 && now.st_ino == door->st_ino &&
        now.st_dev == door->st_dev)
        unlink(s->place.socket);
    snprintf(folder, sizeof folder, "%s", s->place.socket);
    *strrchr(folder, '/') = '\0';
    rmdir(folder); /* agents may still use it */
}

static int supervise(struct serving *s, const char *addresses, bool no_token)
{
    struct pb_supervised v = {.started = let_go, .say = say, .arg = s};
    struct pb_err *err = &s->ctx->err;
    struct stat door = {0};
    int fd, role = -1, status = 0;

    if (pb_servelock_socket_folder(s->place.socket, err) < 0)
        return -1;
    fd = pb_server_bind(s->place.socket, err);
    if (fd < 0)
        return -1;
    lstat(s->place.socket, &door);
    s->pid = getpid();
    write_lock(s);
    v.journal = s->journal = pb_journal_create();
    v.keeper = s->keeper = pb_keeper_create();
    if (!s->journal || !s->keeper) {
        pb_err_set(err, PB_FAIL, "no memory");
        close(fd);
    } else {
        pb_keeper_hold(s->keeper, 0, fd);
        role = pb_supervise(&v, &status, err);
    }
    if (role == PB_ROLE_SERVER || role == PB_ROLE_SUCCESSOR)
        role = run_server(s, addresses, no_token, role == PB_ROLE_SUCCESSOR);
    else
        leave(s, &door);
    pb_keeper_destroy(s->keeper);
    pb_journal_destroy(s->journal);
    if (status)
        _exit(status); /* the server has said why */
    return role < 0 ? -1 : 0;
}

int pb_serve_loop(struct pb_ctx *ctx, bool on_demand, const char *addresses, bool no_token)
{
    struct serving s = {.ctx = ctx, .on_demand = on_demand, .lock = -1, .signals = -1};
    int rc;

    umask(077);
    prctl(PR_SET_NAME, "probing-node"); /* it was started as /proc/self/exe */
    if (pb_nodeplace_find(&s.place, &ctx->err) < 0 ||
        pb_servelock_folder(s.place.data, &ctx->err) < 0)
        return -1;
    rc = pb_servelock_take(ctx, &s.place, &s.lock);
    if (rc == 1 && !on_demand)
        rc = pb_err_set(&ctx->err, PB_FAIL,
                        "a node is running for %s already. End it with: probing serve --stop",
                        s.place.data);
    if (rc == 0)
        rc = supervise(&s, addresses, no_token);
    if (s.lock >= 0)
        close(s.lock);
    return rc < 0 || ctx->err.code != PB_OK ? -1 : 0;
}
