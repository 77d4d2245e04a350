/* Signals of a crash: the handlers of the program, the reader, stacks for handlers. */
#include "agent/agent_test.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/collectors/crash/crash.h"

static volatile sig_atomic_t seen;

static void on_abort(int signal)
{
    seen = signal;
}

/* A program's own handler is called behind ours, and is back when ours is taken out. */
static void test_handler_of_the_program(void **state)
{
    struct pb_self *self = agent_begin();
    struct pb_crash_state *s = pb_crash_state(self);
    struct sigaction own = {.sa_handler = on_abort}, now;

    (void)state;
    sigaction(SIGABRT, &own, NULL);
    signal(SIGFPE, SIG_IGN);
    pb_crash_arm(s);
    sigaction(SIGABRT, NULL, &now);
    assert_true(now.sa_handler != on_abort);
    sigaction(SIGFPE, NULL, &now);
    assert_true(now.sa_handler == SIG_IGN); /* what is ignored stays so */
    raise(SIGABRT);
    assert_int_equal(seen, SIGABRT);
    assert_int_equal(s->reports, 1);
    assert_int_equal(s->record.signal, SIGABRT);
    assert_int_equal(s->record.pid, getpid());
    raise(SIGABRT); /* at once again: the same crash */
    assert_int_equal(s->reports, 1);
    pb_crash_disarm(s);
    sigaction(SIGABRT, NULL, &now);
    assert_true(now.sa_handler == on_abort);
    signal(SIGABRT, SIG_DFL);
    signal(SIGFPE, SIG_DFL);
    agent_end(self);
}

/* Without one the process ends by the signal that it got. */
static void test_default_action(void **state)
{
    struct pb_self *self = agent_begin();
    pid_t child = fork();
    int status = 0;

    (void)state;
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* cmocka has one */
        pb_crash_arm(pb_crash_state(self));
        raise(SIGSEGV);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    agent_end(self);
}

/* A program in place of the tool: writes its arguments down and says that it has read. */
static void write_tool(char *path, size_t cap, const char *last)
{
    FILE *file;

    snprintf(path, cap, "%s/tool", agent_folder);
    file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\necho \"$@\" $PROBING_HOME >%s/said\n%s\n", agent_folder, last);
    fclose(file);
    assert_int_equal(chmod(path, 0700), 0);
}

static void test_reader_is_told_where(void **state)
{
    struct pb_self *self = agent_begin();
    struct pb_crash_state *s = pb_crash_state(self);
    char path[128], said[256] = "", expected[128], last[32];
    FILE *file;

    (void)state;
    assert_false(pb_crash_report(s)); /* nobody to start */
    snprintf(last, sizeof last, "printf x >&%d", PB_CRASH_ACK_FD);
    write_tool(s->tool, sizeof s->tool, last);
    strcpy(s->data, "PROBING_HOME=there");
    pb_crash_fill(self, s, PB_CRASH_SIGNAL);
    assert_true(pb_crash_report(s));
    snprintf(path, sizeof path, "%s/said", agent_folder);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(said, sizeof said, file));
    fclose(file);
    snprintf(expected, sizeof expected, "crashes --take %d:0x%lx there\n", (int)getpid(),
             (unsigned long)(uintptr_t)&s->record);
    assert_string_equal(said, expected);
    write_tool(s->tool, sizeof s->tool, "exit 1"); /* ends without a word */
    assert_false(pb_crash_report(s));
    strcpy(s->tool, "/nowhere/tool");
    assert_false(pb_crash_report(s));
    agent_end(self);
}

static void test_stack_for_handlers(void **state)
{
    stack_t now, none = {.ss_flags = SS_DISABLE};
    void *stack;

    (void)state;
    sigaltstack(&none, NULL);
    stack = pb_crash_altstack_set();
    assert_non_null(stack);
    sigaltstack(NULL, &now);
    assert_true(!(now.ss_flags & SS_DISABLE) && now.ss_size >= 64 << 10);
    assert_null(pb_crash_altstack_set()); /* there is one */
    pb_crash_altstack_drop(stack);
    sigaltstack(NULL, &now);
    assert_true(now.ss_flags & SS_DISABLE);
    pb_crash_altstack_drop(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handler_of_the_program),
        cmocka_unit_test(test_default_action),
        cmocka_unit_test(test_reader_is_told_where),
        cmocka_unit_test(test_stack_for_handlers),
    };

    return RUN_TESTS(tests);
}
