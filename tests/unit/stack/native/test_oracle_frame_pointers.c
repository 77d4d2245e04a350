/*
 * Code built with frame pointers, asleep, of which only sp and pc are known:
 * the same frames as libdw finds from all registers.
 */
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "stack/native/oracle.h"

struct built {
    char dir[64], program[80];
};

/* framed.c lies beside this file. Returns the compiler's exit status, 127 when there is none. */
static int compile(const struct built *b)
{
    const char *slash = strrchr(__FILE__, '/');
    char source[4096];
    int status;
    pid_t pid;

    snprintf(source, sizeof source, "%.*s/framed.c", (int)(slash - __FILE__), __FILE__);
    pid = fork();
    if (pid == 0) {
        execlp("cc", "cc", "-O2", "-fno-omit-frame-pointer", source, "-o", b->program,
               (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static pid_t start(const struct built *b, const char *shape, bool by_pointer)
{
    int out[2];
    pid_t pid;
    char c;

    assert_int_equal(pipe(out), 0);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(out[1], 1);
        execl(b->program, "framed", shape, by_pointer ? "by pointer" : NULL, (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    assert_int_equal(read(out[0], &c, 1), 1);
    close(out[0]);
    for (int i = 0; i < 2000 && !is_blocked(pid, pid); i++)
        usleep(1000);
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, __WALL);
}

/* may_refuse: the truth cannot be told from what an earlier call left behind. */
static void check(const struct thread *t, struct pb_native *n, bool may_refuse)
{
    static struct pcs theirs;
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_native_stack ours;
    struct pb_regs few;
    Dwfl *d = oracle(t->tid);

    theirs.n = 0;
    theirs.complete = dwfl_getthread_frames(d, t->tid, add_pc, &theirs) == 0;
    assert_true(theirs.complete);
    pb_regs_from_sp_pc(&few, t->regs.sp, t->regs.pc);
    pb_native_unwind(n, &few, &t->stack, 0, &a, &ours);
    if (!may_refuse || ours.end != PB_NATIVE_NO_REG)
        assert_same(&ours, &theirs);
    pb_arena_finish(&a);
    dwfl_end(d);
}

static void one_shape(const struct built *b, const char *shape, bool by_pointer, bool is_fixed)
{
    pid_t pid = start(b, shape, by_pointer);
    struct pb_native *native;
    struct pb_maps maps;
    struct pb_mem mem;
    struct thread t;

    print_message("%s%s\n", shape, by_pointer ? ", by pointer" : "");
    assert_int_equal(pb_maps_read(&maps, pid, NULL), 0);
    pb_mem_init_process(&mem, pid);
    assert_int_equal(pb_native_create(&native, pid, &maps, &mem, NULL), 0);
    assert_true(hold(&t, pid, pid, &maps, &mem));
    assert_true(t.blocked);
    check(&t, native, by_pointer && !is_fixed);
    free((void *)(uintptr_t)t.stack.bytes);
    pb_native_destroy(native);
    pb_maps_finish(&maps);
    end(pid);
}

static void agrees_with_libdw(void **state)
{
    static const char *const fixed[] = {"plain", "large"};
    static const char *const moving[] = {"grown", "aligned", "jumped"};
    struct built b = {.dir = "/tmp/probing-framed-XXXXXX"};
    int status;

    (void)state;
    assert_non_null(mkdtemp(b.dir));
    snprintf(b.program, sizeof b.program, "%s/framed", b.dir);
    status = compile(&b);
    for (int i = 0; status == 0 && i < 2; i++) {
        one_shape(&b, fixed[i], false, true);
        one_shape(&b, fixed[i], true, true);
    }
    for (int i = 0; status == 0 && i < 3; i++) {
        one_shape(&b, moving[i], false, false);
        one_shape(&b, moving[i], true, false);
    }
    unlink(b.program);
    rmdir(b.dir);
    if (status == 127)
        skip();
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_libdw)};

    return RUN_TESTS(tests);
}
