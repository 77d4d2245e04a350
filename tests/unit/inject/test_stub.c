/*
 * What the stub must leave as it was: registers, vector registers, the red
 * zone, the system call that the victim slept in, and its signals.
 */
#include "inject/target.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#define ROUNDS 25
#define SLEEP_MS 300

static const struct pb_inject_hook any = {.any_program = true};

static void skip_unless_possible(void)
{
    if (TARGET_SANITIZED)
        skip();
}

#ifdef __x86_64__

/* The registers as the spinning code finds them, and as it leaves them. */
struct registers {
    uint64_t gpr[15]; /* rax rbx rcx rdx rsi rdi rbp r8 … r15 */
    uint64_t flags;
    uint64_t red[16];
    uint8_t ymm[16][32];
};

void spin(const struct registers *in);
extern struct registers spin_out;
extern uint32_t spin_count;

/*
 * Loads everything, counts down in memory, stores everything. Carry and
 * direction flag survive the loop. Works without touching the stack between.
 */
__asm__("    .local spin_out, spin_count\n"
        "    .comm spin_out, 768, 64\n"
        "    .comm spin_count, 4, 4\n"
        "    .text\n"
        "    .globl spin\n"
        "spin:\n"
        "    push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
        ".set i, 0\n"
        ".rept 16\n"
        "    mov 128 + i * 8(%rdi), %rax\n"
        "    mov %rax, -8 - i * 8(%rsp)\n"
        ".set i, i + 1\n"
        ".endr\n"
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "    vmovdqu 256 + \\n * 32(%rdi), %ymm\\n\n"
        ".endr\n"
        "    mov 0(%rdi), %rax; mov 8(%rdi), %rbx; mov 16(%rdi), %rcx; mov 24(%rdi), %rdx\n"
        "    mov 32(%rdi), %rsi; mov 48(%rdi), %rbp; mov 56(%rdi), %r8; mov 64(%rdi), %r9\n"
        "    mov 72(%rdi), %r10; mov 80(%rdi), %r11; mov 88(%rdi), %r12; mov 96(%rdi), %r13\n"
        "    mov 104(%rdi), %r14; mov 112(%rdi), %r15; mov 40(%rdi), %rdi\n"
        "    stc\n"
        "    std\n"
        "1:  decl spin_count(%rip)\n"
        "    jnz 1b\n"
        "    mov %rax, spin_out + 0(%rip); mov %rbx, spin_out + 8(%rip)\n"
        "    mov %rcx, spin_out + 16(%rip); mov %rdx, spin_out + 24(%rip)\n"
        "    mov %rsi, spin_out + 32(%rip); mov %rdi, spin_out + 40(%rip)\n"
        "    mov %rbp, spin_out + 48(%rip); mov %r8, spin_out + 56(%rip)\n"
        "    mov %r9, spin_out + 64(%rip); mov %r10, spin_out + 72(%rip)\n"
        "    mov %r11, spin_out + 80(%rip); mov %r12, spin_out + 88(%rip)\n"
        "    mov %r13, spin_out + 96(%rip); mov %r14, spin_out + 104(%rip)\n"
        "    mov %r15, spin_out + 112(%rip)\n"
        ".set i, 0\n"
        ".rept 16\n"
        "    mov -8 - i * 8(%rsp), %rax\n"
        "    mov %rax, spin_out + 128 + i * 8(%rip)\n"
        ".set i, i + 1\n"
        ".endr\n"
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "    vmovdqu %ymm\\n, spin_out + 256 + \\n * 32(%rip)\n"
        ".endr\n"
        "    pushfq\n"
        "    pop %rax\n"
        "    mov %rax, spin_out + 120(%rip)\n"
        "    cld\n"
        "    vzeroupper\n"
        "    pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n"
        "    ret\n");

_Static_assert(sizeof(struct registers) == 768, "layout of the asm above");

#define CARRY 1u
#define DIRECTION 0x400u

struct progress {
    volatile uint64_t rounds, wrong;
};

static void check_for_ever(void *arg)
{
    struct progress *p = arg;
    struct registers in;
    uint8_t *bytes = (uint8_t *)&in;

    for (uint32_t seed = 1;; p->rounds++) {
        for (size_t i = 0; i < sizeof in; i++) {
            seed = seed * 1664525 + 1013904223;
            bytes[i] = (uint8_t)(seed >> 24);
        }
        spin_count = 50000;
        spin(&in);
        if ((spin_out.flags & (CARRY | DIRECTION)) != (CARRY | DIRECTION))
            p->wrong++;
        in.flags = spin_out.flags;
        if (memcmp(&in, &spin_out, sizeof in) != 0)
            p->wrong++;
    }
}

static void registers_of_a_running_victim(void **state)
{
    struct progress *p = target_shared(sizeof *p);
    struct pb_inject_opts o = target_library();
    uint64_t before;
    pid_t pid;

    (void)state;
    skip_unless_possible();
    if (!__builtin_cpu_supports("avx"))
        skip();
    pid = target_begin(check_for_ever, p);
    while (p->rounds < 2)
        usleep(1000);
    for (int i = 0; i < ROUNDS; i++)
        target_inject(pid, &o, &any);
    before = p->rounds;
    for (int i = 0; i < 5000 && p->rounds < before + 3; i++)
        usleep(1000);
    assert_true(target_alive(pid));
    assert_true(p->rounds >= before + 3);
    assert_int_equal(p->wrong, 0);
    target_end(pid);
}

#else

static void registers_of_a_running_victim(void **state)
{
    (void)state;
    skip();
}

#endif

/* What a system call gave, and after how long. */
struct outcome {
    volatile int done;
    long result;
    int error;
    double ms;
    long (*call)(void);
};

static double now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1000 + (double)ts.tv_nsec / 1e6;
}

static void call_once(void *arg)
{
    struct outcome *out = arg;
    double began = now_ms();

    errno = 0;
    out->result = out->call();
    out->error = errno;
    out->ms = now_ms() - began;
    out->done = 1;
    for (;;)
        pause();
}

static long call_nanosleep(void)
{
    struct timespec t = {0, SLEEP_MS * 1000000l};

    return nanosleep(&t, NULL);
}

static long call_poll(void)
{
    return poll(NULL, 0, SLEEP_MS);
}

static long call_ppoll(void)
{
    struct timespec t = {0, SLEEP_MS * 1000000l};
    sigset_t none;

    sigemptyset(&none);
    return ppoll(NULL, 0, &t, &none);
}

static long call_select(void)
{
    struct timeval t = {0, SLEEP_MS * 1000};

    return select(0, NULL, NULL, NULL, &t);
}

static long call_futex(void)
{
    struct timespec t = {0, SLEEP_MS * 1000000l};
    int word = 0;
    long rc = syscall(SYS_futex, &word, FUTEX_WAIT, 0, &t, NULL, 0);

    return rc < 0 && errno == ETIMEDOUT ? 0 : rc;
}

static pid_t sleeper(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        usleep(SLEEP_MS * 1000);
        _exit(0);
    }
    return pid;
}

static long call_wait4(void)
{
    pid_t pid = sleeper();

    return wait4(pid, NULL, 0, NULL) == pid ? 0 : -1;
}

/* The other end of a pair, written to by a child after a while. */
static long receive(int kind, long (*get)(int fd))
{
    int fds[2];
    long rc;

    if (kind < 0 ? pipe(fds) : socketpair(AF_UNIX, kind, 0, fds))
        return -1;
    if (fork() == 0) {
        usleep(SLEEP_MS * 1000);
        _exit(write(fds[1], "x", 1) != 1);
    }
    rc = get(fds[0]);
    return rc == 1 ? 0 : rc - 100;
}

static long get_by_read(int fd)
{
    char c;

    return read(fd, &c, 1);
}

static long get_by_recv(int fd)
{
    char c;

    return recv(fd, &c, 1, 0);
}

static long get_by_epoll(int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    int ep = epoll_create1(0);

    epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event);
    return epoll_wait(ep, &event, 1, -1);
}

static long call_read(void)
{
    return receive(-1, get_by_read);
}

static long call_recv(void)
{
    return receive(SOCK_STREAM, get_by_recv);
}

static long call_epoll(void)
{
    return receive(SOCK_STREAM, get_by_epoll);
}

/* Each call goes on to its end, no earlier and not much later. */
static void system_calls_go_on(void **state)
{
    static long (*const calls[])(void) = {call_nanosleep, call_poll, call_ppoll,
                                          call_select,    call_futex, call_wait4,
                                          call_read,      call_recv,  call_epoll};
    struct outcome *out = target_shared(sizeof *out);
    struct pb_inject_opts o = target_library();

    (void)state;
    skip_unless_possible();
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        pid_t pid;

        memset(out, 0, sizeof *out);
        out->call = calls[i];
        pid = target_begin(call_once, out);
        target_until_asleep(pid);
        for (int j = 0; j < 3; j++)
            target_inject(pid, &o, &any);
        for (int j = 0; j < 5000 && !out->done; j++)
            usleep(1000);
        if (!out->done || out->result != 0 || out->ms < SLEEP_MS - 1 || out->ms > SLEEP_MS + 400)
            fail_msg("call %zu: done %d, result %ld, errno %d, after %.0f ms", i, out->done,
                     out->result, out->error, out->ms);
        target_end(pid);
    }
}

static void ignore_it(int signo)
{
    (void)signo;
}

static long sleep_with_handler(int flags)
{
    struct sigaction act = {.sa_handler = ignore_it, .sa_flags = flags};

    sigaction(SIGUSR1, &act, NULL);
    return call_nanosleep();
}

static long sleep_interruptible(void)
{
    return sleep_with_handler(0);
}

static long read_interruptible(void)
{
    struct sigaction act = {.sa_handler = ignore_it};

    sigaction(SIGUSR1, &act, NULL);
    return call_read();
}

static long read_restarting(void)
{
    struct sigaction act = {.sa_handler = ignore_it, .sa_flags = SA_RESTART};

    sigaction(SIGUSR1, &act, NULL);
    return call_read();
}

static long sleep_with_child_signal(void)
{
    return call_nanosleep(); /* SIGCHLD is ignored by default and disturbs nobody */
}

struct sender {
    pid_t pid;
    int signo;
};

static void send_while_masked(enum pb_inject_step step, void *arg)
{
    const struct sender *s = arg;

    if (step == PB_STEP_MASK)
        kill(s->pid, s->signo);
}

/* A signal that comes while the victim is away does to its call what it always does. */
static void signals_during_the_stub(void **state)
{
    static const struct {
        long (*call)(void);
        int signo;
        bool interrupted;
    } cases[] = {
        {sleep_interruptible, SIGUSR1, true},
        {read_interruptible, SIGUSR1, true},
        {read_restarting, SIGUSR1, false},
        {sleep_with_child_signal, SIGCHLD, false},
    };
    struct outcome *out = target_shared(sizeof *out);
    struct pb_inject_opts o = target_library();

    (void)state;
    skip_unless_possible();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sender sender = {.signo = cases[i].signo};
        struct pb_inject_hook hook = {
            .at = send_while_masked, .arg = &sender, .any_program = true};

        memset(out, 0, sizeof *out);
        out->call = cases[i].call;
        sender.pid = target_begin(call_once, out);
        target_until_asleep(sender.pid);
        target_inject(sender.pid, &o, &hook);
        for (int j = 0; j < 5000 && !out->done; j++)
            usleep(1000);
        assert_true(out->done);
        if (cases[i].interrupted != (out->error == EINTR))
            fail_msg("case %zu: result %ld, errno %d, after %.0f ms", i, out->result, out->error,
                     out->ms);
        target_end(sender.pid);
    }
}

struct alarms {
    volatile uint64_t count;
    volatile int mask_is_wrong;
};

static struct alarms *alarms;

static void count_alarm(int signo)
{
    (void)signo;
    alarms->count++;
}

static void live_with_alarms(void *arg)
{
    struct sigaction act = {.sa_handler = count_alarm, .sa_flags = SA_RESTART};
    struct itimerval every = {{0, 1000}, {0, 1000}};
    sigset_t block, now;

    alarms = arg;
    sigemptyset(&block);
    sigaddset(&block, SIGUSR2);
    sigprocmask(SIG_BLOCK, &block, NULL);
    sigaction(SIGALRM, &act, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    for (;;) {
        usleep(300);
        for (volatile int i = 0; i < 100000; i++)
            ;
        sigprocmask(SIG_BLOCK, NULL, &now);
        if (memcmp(&now, &block, 8) != 0)
            alarms->mask_is_wrong = 1;
    }
}

static void a_storm_of_signals(void **state)
{
    struct alarms *a = target_shared(sizeof *a);
    struct pb_inject_opts o = target_library();
    uint64_t before;
    pid_t pid;

    (void)state;
    skip_unless_possible();
    pid = target_begin(live_with_alarms, a);
    while (a->count < 5)
        usleep(1000);
    for (int i = 0; i < ROUNDS; i++)
        target_inject(pid, &o, &any);
    before = a->count;
    for (int i = 0; i < 20000 && a->count == before; i++)
        usleep(1000);
    assert_true(target_alive(pid));
    assert_true(a->count > before);
    assert_int_equal(a->mask_is_wrong, 0);
    target_end(pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(registers_of_a_running_victim),
        cmocka_unit_test(system_calls_go_on),
        cmocka_unit_test(signals_during_the_stub),
        cmocka_unit_test(a_storm_of_signals),
    };

    return RUN_TESTS(tests);
}
