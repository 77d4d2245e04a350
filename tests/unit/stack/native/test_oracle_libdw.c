/*
 * Our unwinder against libdw on a live Python: the same frames wherever libdw
 * gets to the end, and the same source lines.
 */
#include <dirent.h>
#include <dwarf.h>
#include <signal.h>
#include <unistd.h>

#include "stack/native/oracle.h"

#define THREADS_MAX 32
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

/* The line in a function from which what was inlined into it is called there; 0: nothing was. */
static int oracle_call(Dwfl_Module *mod, uint64_t pc)
{
    Dwarf_Addr bias;
    Dwarf_Die *cu = dwfl_module_addrdie(mod, pc, &bias), *inner = NULL, *scopes = NULL;
    int n = cu ? dwarf_getscopes(cu, pc - bias, &inner) : 0;
    Dwarf_Word line = 0;

    /* Those scopes are as the source nests them; from the innermost one on, as the code does. */
    n = n > 0 ? dwarf_getscopes_die(&inner[0], &scopes) : 0;
    for (int i = 0; i < n && dwarf_tag(&scopes[i]) != DW_TAG_subprogram; i++) {
        Dwarf_Attribute attr;

        if (dwarf_tag(&scopes[i]) == DW_TAG_inlined_subroutine &&
            dwarf_attr(&scopes[i], DW_AT_call_line, &attr))
            dwarf_formudata(&attr, &line);
    }
    free(scopes);
    free(inner);
    return (int)line;
}

/* The line of a frame's call, where the module has its own debug information. */
static int oracle_line(Dwfl *d, uint64_t pc)
{
    Dwfl_Module *mod = dwfl_addrmodule(d, pc);
    Dwfl_Line *line = mod ? dwfl_module_getsrc(mod, pc) : NULL;
    int lineno = mod ? oracle_call(mod, pc) : 0;

    if (lineno)
        return lineno;
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
