/*
 * target.h - for tests: processes to inject into, and something to inject.
 *
 * Owns: the child, until target_end.
 * Threads: one.
 * Fails: the test, through cmocka.
 * Not here: the agent. Any library will do; libm is on every machine, and its
 * finite() looks enough like an entry function.
 */
#ifndef PB_TEST_INJECT_TARGET_H
#define PB_TEST_INJECT_TARGET_H

#include "pb_test.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/process/proc.h"
#include "inject/internal.h"

/* An allocator under a sanitizer cannot be interrupted anywhere: such targets are left out. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TARGET_SANITIZED true
#else
#define TARGET_SANITIZED false
#endif

static inline struct pb_inject_opts target_library(void)
{
    struct pb_inject_opts o = {.entry = "finite", .options = "a=b", .timeout_ms = 10000};
    void *handle = dlopen("libm.so.6", RTLD_NOW);
    struct link_map *map = NULL;
    struct stat st;
    void *data;
    int fd;

    assert_non_null(handle);
    assert_int_equal(dlinfo(handle, RTLD_DI_LINKMAP, &map), 0);
    fd = open(map->l_name, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_true(data != MAP_FAILED);
    close(fd);
    o.library = data;
    o.library_size = (size_t)st.st_size;
    return o;
}

/* A child that runs f(arg) for ever; memory from target_shared is common. */
static inline pid_t target_begin(void (*f)(void *arg), void *arg)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        f(arg);
        _exit(0);
    }
    return pid;
}

/* A Python that runs a script, which prints a line when it is ready. */
static inline pid_t target_python(const char *script)
{
    int out[2];
    pid_t pid;

    assert_int_equal(pipe(out), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(out[1], 1);
        close(out[0]);
        close(out[1]);
        execlp("python3", "python3", "-c", script, (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    await_line(out[0]);
    return pid;
}

static inline bool target_alive(pid_t pid)
{
    return waitpid(pid, NULL, WNOHANG) == 0;
}

static inline void target_end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static inline void *target_shared(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(p != MAP_FAILED);
    return p;
}

static inline void target_until_asleep(pid_t pid)
{
    struct pb_proc_wait w = {0};

    for (int i = 0; i < 2000 && !w.blocked; i++) {
        usleep(1000);
        pb_proc_wait(&w, pid, pid);
    }
    assert_true(w.blocked);
}

/* Injects, with the message when that fails. */
static inline void target_inject(pid_t pid, const struct pb_inject_opts *o,
                                 const struct pb_inject_hook *hook)
{
    struct pb_inject_report r;
    struct pb_err err = {0};

    if (pb_injection_run(pid, o, hook, &r, &err) < 0)
        fail_msg("%s (%d attempts)", err.msg, r.attempts);
    assert_true(r.tid > 0);
    assert_true(r.way != NULL && r.pause_us > 0 && r.total_us > r.pause_us);
}

#endif
