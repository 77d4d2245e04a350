/*
 * Our unwinder against libdw on a live Python: the same frames wherever libdw
 * gets to the end, and the same source lines.
 */
#include <dirent.h>
#include <elf.h>
#include <elfutils/libdwfl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pb_test.h"
#include "unwind/native/native.h"

#define THREADS_MAX 32
#define FRAMES_MAX 4096
#define STACK_MAX ((size_t)1 << 20)
#define ROUNDS 10

static const char script[] =
    "import sys, threading, time\n"
    "lock = threading.Lock()\n"
    "lock.acquire()\n"
    "def deep(n):\n"
    "    if n == 0: lock.acquire()\n"
    "    else: sorted([1], key=lambda _: deep(n - 1))\n"
    "def busy():\n"
    "    x = 1\n"
    "    while True: x = (x * 3 + len(str(x))) % 1000003\n"
    "for f in (lambda: time.sleep(1000), lock.acquire, lambda: deep(20), busy):\n"
    "    threading.Thread(target=f, daemon=True).start()\n"
    "time.sleep(0.3)\n"
    "print('ready', flush=True)\n"
    "sys.stdin.read()\n";

struct target {
    pid_t pid;
    int in, out;
};

struct thread {
    pid_t tid;
    struct pb_regs regs;
    struct pb_stack_copy stack;
    bool blocked;
};

struct pcs {
    uint64_t v[FRAMES_MAX];
    size_t n;
    bool complete;
};

static int start_python(struct target *t)
{
    int in[2], out[2];
    char line[16];
    ssize_t got;

    if (pipe(in) < 0 || pipe(out) < 0)
        return -1;
    t->pid = fork();
    if (t->pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        close(out[0]);
        execlp("python3", "python3", "-c", script, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    t->in = in[1];
    t->out = out[0];
    got = read(t->out, line, sizeof line);
    return got >= 5 && memcmp(line, "ready", 5) == 0 ? 0 : -1;
}

static void end_python(struct target *t)
{
    close(t->in);
    close(t->out);
    if (t->pid > 0) {
        kill(t->pid, SIGKILL);
        waitpid(t->pid, NULL, 0);
    }
}

static bool is_blocked(pid_t pid, pid_t tid)
{
    char path[64], first = 'r';
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/task/%d/syscall", pid, tid);
    f = fopen(path, "r");
    if (f) {
        first = (char)fgetc(f);
        fclose(f);
    }
    return first >= '0' && first <= '9';
}

/* Stops a thread and copies its registers and stack; it stays stopped. */
static bool hold(struct thread *t, pid_t pid, pid_t tid, const struct pb_maps *maps,
                 struct pb_mem *mem)
{
    uint8_t gpr[1024], *bytes;
    struct iovec iov = {gpr, sizeof gpr};
    const struct pb_map *m;
    int status;

    t->tid = tid;
    t->blocked = is_blocked(pid, tid);
    if (ptrace(PTRACE_SEIZE, tid, 0, 0) < 0)
        return false;
    ptrace(PTRACE_INTERRUPT, tid, 0, 0);
    if (waitpid(tid, &status, __WALL) != tid || !WIFSTOPPED(status))
        return false;
    assert_int_equal(ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &iov), 0);
    assert_true(pb_regs_from_prstatus(&t->regs, gpr, iov.iov_len));
    m = pb_maps_find(maps, t->regs.sp);
    assert_non_null(m);
    t->stack.base = t->regs.sp;
    t->stack.len = m->end - t->regs.sp < STACK_MAX ? m->end - t->regs.sp : STACK_MAX;
    bytes = malloc(t->stack.len);
    assert_true(pb_mem_get(mem, t->stack.base, bytes, t->stack.len));
    t->stack.bytes = bytes;
    return true;
}

static size_t hold_all(struct thread *v, pid_t pid, const struct pb_maps *maps, struct pb_mem *mem)
{
    char path[64];
    struct dirent *e;
    size_t n = 0;
    DIR *d;

    snprintf(path, sizeof path, "/proc/%d/task", pid);
    d = opendir(path);
    assert_non_null(d);
    while ((e = readdir(d)) && n < THREADS_MAX) {
        if (e->d_name[0] != '.' && hold(&v[n], pid, atoi(e->d_name), maps, mem))
            n++;
    }
    closedir(d);
    return n;
}

static void release(struct thread *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ptrace(PTRACE_DETACH, v[i].tid, 0, 0);
        free((void *)(uintptr_t)v[i].stack.bytes);
    }
}

static int no_debuginfo(Dwfl_Module *mod, void **user, const char *name, Dwarf_Addr base,
                        const char *file, const char *link, GElf_Word crc, char **ret)
{
    (void)mod, (void)user, (void)name, (void)base, (void)file, (void)link, (void)crc, (void)ret;
    return -1;
}

static Dwfl *oracle(pid_t pid)
{
    static const Dwfl_Callbacks callbacks = {
        .find_elf = dwfl_linux_proc_find_elf,
        .find_debuginfo = no_debuginfo,
    };
    Dwfl *d = dwfl_begin(&callbacks);

    assert_non_null(d);
    assert_int_equal(dwfl_linux_proc_report(d, pid), 0);
    assert_int_equal(dwfl_report_end(d, NULL, NULL), 0);
    assert_int_equal(dwfl_linux_proc_attach(d, pid, true), 0);
    return d;
}

static int add_pc(Dwfl_Frame *frame, void *arg)
{
    struct pcs *p = arg;
    Dwarf_Addr pc;
    bool exact;

    if (p->n == FRAMES_MAX || !dwfl_frame_pc(frame, &pc, &exact))
        return DWARF_CB_ABORT;
    p->v[p->n++] = pc;
    return DWARF_CB_OK;
}

static void assert_same(const struct pb_native_stack *ours, const struct pcs *theirs)
{
    for (size_t i = 0; i < theirs->n && i < ours->n; i++)
        assert_int_equal(ours->v[i].pc, theirs->v[i]);
    assert_true(ours->n >= theirs->n);
    if (theirs->complete) {
        assert_int_equal(ours->n, theirs->n);
        assert_int_equal(ours->end, PB_NATIVE_COMPLETE);
    }
}

/* The line of a frame's call, where the module has its own debug information. */
static int oracle_line(Dwfl *d, uint64_t pc)
{
    Dwfl_Module *mod = dwfl_addrmodule(d, pc);
    Dwfl_Line *line = mod ? dwfl_module_getsrc(mod, pc) : NULL;
    int lineno = 0;

    if (line)
        dwfl_lineinfo(line, NULL, &lineno, NULL, NULL, NULL);
    return lineno;
}

static void assert_same_lines(const struct pb_native_stack *s, Dwfl *d)
{
    for (size_t i = 0; i < s->n; i++) {
        uint64_t pc = i == 0 ? s->v[i].pc : s->v[i].pc - 1;

        assert_int_equal(s->v[i].lineno, oracle_line(d, pc));
    }
}

struct tally {
    size_t complete, blocked, frames, lines;
};

static void check_thread(struct pb_native *n, const struct thread *t, Dwfl *d, struct pcs *theirs,
                         struct tally *tally)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_native_stack ours;
    struct pb_regs few;

    theirs->n = 0;
    theirs->complete = dwfl_getthread_frames(d, t->tid, add_pc, theirs) == 0;
    pb_native_unwind(n, &t->regs, &t->stack, 0, &a, &ours);
    assert_same(&ours, theirs);
    tally->complete += theirs->complete;
    tally->frames += ours.n;
    pb_native_symbolize(n, &ours, 1, true, &a);
    assert_same_lines(&ours, d);
    for (size_t i = 0; i < ours.n; i++)
        tally->lines += ours.v[i].lineno != 0;
    if (t->blocked) {
        /* Without a stop only sp and pc are known: the same, or an honest refusal. */
        pb_regs_from_sp_pc(&few, t->regs.sp, t->regs.pc);
        pb_native_unwind(n, &few, &t->stack, 0, &a, &ours);
        if (ours.end != PB_NATIVE_NO_REG) {
            assert_same(&ours, theirs);
            tally->blocked++;
        }
    }
    pb_arena_finish(&a);
}

static void one_round(pid_t pid, struct tally *tally)
{
    static struct pcs theirs;
    struct thread threads[THREADS_MAX];
    struct pb_maps maps;
    struct pb_native *native;
    struct pb_mem mem;
    size_t n;
    Dwfl *d;

    assert_int_equal(pb_maps_read(&maps, pid, NULL), 0);
    pb_mem_init_process(&mem, pid);
    assert_int_equal(pb_native_create(&native, pid, &maps, &mem, NULL), 0);
    n = hold_all(threads, pid, &maps, &mem);
    d = oracle(pid);
    for (size_t i = 0; i < n; i++)
        check_thread(native, &threads[i], d, &theirs, tally);
    dwfl_end(d);
    release(threads, n);
    pb_native_destroy(native);
    pb_maps_finish(&maps);
}

static void agrees_with_libdw(void **state)
{
    struct tally tally = {0};
    struct target t = {0, -1, -1};

    (void)state;
    if (start_python(&t) < 0) {
        end_python(&t);
        skip();
    }
    for (int i = 0; i < ROUNDS; i++)
        one_round(t.pid, &tally);
    end_python(&t);
    printf("%zu stacks complete in libdw, %zu by sp and pc alone, %zu frames, %zu lines\n",
           tally.complete, tally.blocked, tally.frames, tally.lines);
    assert_true(tally.complete >= 4 * ROUNDS);
    assert_true(tally.blocked >= ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_libdw)};

    return RUN_TESTS(tests);
}
