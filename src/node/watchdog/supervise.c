#include "node/watchdog/supervise.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define WAIT_FIRST_MS 20
#define WAIT_MAX_MS 5000
#define CALM_NS 10000000000ull
#define TRIES_MAX 5
#define PATIENCE_NS 18000000000ull
#define LOOK_MS 200
#define LOOK_AFTER_MS 1000 /* whether the server waits for a page that does not come */
#define STUCK_NS 15000000000ull

struct supervisor {
    const struct pb_supervised *s;
    int signals;
    sigset_t before; /* mask that servers get */
    pid_t server;    /* 0: none runs */
    bool told;       /* to end */
    uint64_t told_ns;
    int status;      /* how the last server ended, as wait() says */
    pid_t stuck;     /* the process whose memory it waited for in vain; 0: none */
};

/* In the new process. The signal of a supervisor that died before this is sent by nobody. */
static void become_server(struct supervisor *v, pid_t supervisor)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != supervisor)
        _exit(1);
    close(v->signals);
    sigprocmask(SIG_SETMASK, &v->before, NULL);
}

static void read_signals(struct supervisor *v)
{
    struct signalfd_siginfo info;

    while (read(v->signals, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGCHLD)
            continue;
        v->told_ns = v->told ? v->told_ns : pb_clock_ns();
        v->told = true;
        if (v->server > 0)
            kill(v->server, SIGTERM);
    }
    if (v->server > 0 && waitpid(v->server, &v->status, WNOHANG) == v->server)
        v->server = 0;
}

/* Such a wait ends by SIGKILL alone; the next server leaves the process alone. */
static void look_after(struct supervisor *v)
{
    if (v->server <= 0 || v->stuck)
        return;
    v->stuck = pb_stalls_judge(pb_journal_stalls(v->s->journal), STUCK_NS);
    if (v->stuck)
        kill(v->server, SIGKILL);
}

/* Until the server has ended, or for so long. */
static void attend(struct supervisor *v, uint64_t until_ns)
{
    struct pollfd p[] = {{.fd = v->signals, .events = POLLIN},
                         {.fd = pb_keeper_fd(v->s->keeper), .events = POLLIN}};

    for (;;) {
        uint64_t now = pb_clock_ns();

        if (until_ns ? v->told || now >= until_ns : v->server == 0)
            break;
        /* It may be inside of something that does not come back. */
        if (v->told && v->server > 0 && now > v->told_ns + PATIENCE_NS)
            kill(v->server, SIGKILL);
        poll(p, 2, until_ns  ? (int)((until_ns - now) / 1000000u) + 1
                   : v->told ? LOOK_MS
                             : LOOK_AFTER_MS);
        read_signals(v);
        look_after(v);
        pb_keeper_pump(v->s->keeper);
    }
    pb_keeper_pump(v->s->keeper);
}

/* pb_alloc_resize ends a process without memory by an exit code, the system by SIGKILL. */
static void describe(int status, char *buf, size_t cap)
{
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        snprintf(buf, cap, "killed, perhaps for its memory");
    else if (WIFSIGNALED(status))
        snprintf(buf, cap, "%s", strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) == PB_JOURNAL_EXIT_STUCK)
        snprintf(buf, cap, "stuck inside one function");
    else
        snprintf(buf, cap, "out of memory");
}

struct death {
    const struct pb_supervised *s;
    char why[64];
};

static void set_aside(const struct pb_ring_identity *ring, void *arg)
{
    const struct death *d = arg;

    d->s->guilty(ring, d->why, d->s->arg);
}

static void note_death(struct supervisor *v)
{
    struct death d = {.s = v->s};
    int n;

    if (v->stuck) {
        snprintf(d.why, sizeof d.why, "stuck in the memory of process %d", (int)v->stuck);
        v->stuck = 0;
        pb_journal_restarted(v->s->journal, time(NULL), d.why);
        v->s->say("the server was %s, which is set aside; it is started again", d.why);
        return;
    }
    describe(v->status, d.why, sizeof d.why);
    n = pb_journal_blame(v->s->journal, time(NULL), d.why, set_aside, &d);
    v->s->say("the server died: %s; %d quer%s or rings under suspicion; it is started again",
              d.why,
              n, n == 1 ? "y" : "ies");
}

static int exit_code(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int catch_signals(struct supervisor *v, struct pb_err *err)
{
    static const int heard[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD};
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof heard / sizeof *heard; i++)
        sigaddset(&set, heard[i]);
    sigprocmask(SIG_BLOCK, &set, &v->before);
    v->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return v->signals < 0 ? pb_err_set(err, PB_FAIL, "signalfd: %s", strerror(errno)) : 0;
}

int pb_supervise(const struct pb_supervised *s, int *ret_status, struct pb_err *err)
{
    struct supervisor v = {.s = s};
    pid_t self = getpid();
    uint64_t born, wait_ms = WAIT_FIRST_MS;
    int failed = 0;

    if (catch_signals(&v, err) < 0)
        return -1;
    for (bool first = true;; first = false) {
        pb_journal_set_ready(s->journal, false);
        born = pb_clock_ns();
        v.server = fork();
        if (v.server < 0 && first)
            return pb_err_set(err, PB_FAIL, "cannot start a process: %s", strerror(errno));
        if (v.server == 0) {
            become_server(&v, self);
            return first ? PB_ROLE_SERVER : PB_ROLE_SUCCESSOR;
        }
        if (first)
            s->started(s->arg);
        if (v.server > 0)
            attend(&v, 0);
        failed = pb_journal_is_ready(s->journal) ? 0 : failed + 1;
        if (v.told || pb_journal_is_ended(s->journal) || (failed && first) || failed > TRIES_MAX)
            break;
        note_death(&v);
        wait_ms = pb_clock_ns() - born > CALM_NS ? WAIT_FIRST_MS
                  : wait_ms * 2 < WAIT_MAX_MS    ? wait_ms * 2
                                                 : WAIT_MAX_MS;
        attend(&v, pb_clock_ns() + wait_ms * 1000000u);
        if (v.told)
            break;
    }
    close(v.signals);
    *ret_status = exit_code(v.status);
    return PB_ROLE_SUPERVISOR;
}
