/*
 * live.h - for tests: every Python of this machine, each running a script.
 *
 * Owns: the child process and its pipes.
 * Threads: one.
 * Fails: the test, through cmocka; a Python that cannot start is passed over.
 * Not here: what is compared.
 *
 * Interpreters are searched on PATH, under pyenv's root and in
 * PROBING_TEST_PYTHONS (paths with colons between them). A script begins with
 * LIVE_PROLOGUE, which tells the version and the address of _PyRuntime; debug
 * builds that cannot be read (before 3.13) say nothing and are passed over.
 */
#ifndef PB_TEST_LIVE_H
#define PB_TEST_LIVE_H

#include <glob.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/text/arena.h"
#include "host/text/buf.h"
#include "host/process/mem.h"
#include "stack/python/layouts.h"
#include "stack/values/value.h"

#define LIVE_PROLOGUE                                                                              \
    "import sys, os\n"                                                                             \
    "at = 0\n"                                                                                     \
    "if sys.version_info >= (3, 13):\n"                                                            \
    "    import ctypes\n"                                                                          \
    "    at = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, '_PyRuntime'))\n"            \
    "debug = hasattr(sys, 'gettotalrefcount')\n"                                                   \
    "if debug and sys.version_info < (3, 13):\n"                                                   \
    "    sys.exit()\n"                                                                             \
    "out = open(1, 'w', encoding='utf-8', errors='backslashreplace', newline='\\n')\n"             \
    "out.write('%d %d %d %d\\n' % (tuple(sys.version_info[:3]) + (at,)))\n"
#define LIVE_EPILOGUE                                                                              \
    "out.write('end\\n')\n"                                                                        \
    "out.flush()\n"                                                                                \
    "sys.stdin.read()\n"                                                                           \
    "out.close()\n"

struct live {
    const char *python;
    pid_t pid;
    int keep; /* the child's stdin: it ends when this is closed */
    FILE *out;
    int major, minor, micro;
    struct pb_mem mem;
    struct pb_py_layout offsets; /* filled from 3.13 on */
    const struct pb_py_layout *py;
};

static void live_start(struct live *t, const char *python, const char *script)
{
    int in[2], out[2];

    memset(t, 0, sizeof *t);
    t->python = python;
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    t->pid = fork();
    assert_true(t->pid >= 0);
    if (t->pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        close(out[0]);
        setenv("PYTHONHASHSEED", "1", 1);
        execl(python, python, "-c", script, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    t->keep = in[1];
    t->out = fdopen(out[0], "r");
    assert_non_null(t->out);
}

static void live_stop(struct live *t)
{
    close(t->keep);
    fclose(t->out);
    waitpid(t->pid, NULL, 0);
}

/* Reads the first line and finds the layout; false: this Python is not for us. */
static bool live_meet(struct live *t)
{
    uint8_t bytes[PB_DEBUG_OFFSETS_MAX];
    unsigned long long at;
    struct pb_err err = {0};
    char line[256];

    if (!fgets(line, sizeof line, t->out) ||
        sscanf(line, "%d %d %d %llu", &t->major, &t->minor, &t->micro, &at) != 4)
        return false;
    pb_mem_init_process(&t->mem, t->pid);
    if (t->minor < 13) {
        t->py = kept_layout(t->major, t->minor, t->micro);
        return t->py != NULL;
    }
    if (pb_py_support(t->major, t->minor) == PB_PY_UNKNOWN)
        return false;
    assert_true(pb_mem_get(&t->mem, at, bytes, sizeof bytes));
    if (pb_py_layout_from_offsets(&t->offsets, bytes, sizeof bytes, &err) < 0)
        fail_msg("%s: %s", t->python, err.msg);
    t->py = &t->offsets;
    return true;
}

static void live_add(char **list, size_t *n, size_t cap, const char *path)
{
    if (*n < cap && access(path, X_OK) == 0)
        list[(*n)++] = strdup(path);
}

/* Two names of one file count once. */
static void live_add_new(char **list, size_t *n, size_t cap, const char *path)
{
    struct stat new, old;

    if (stat(path, &new) < 0)
        return;
    for (size_t i = 0; i < *n; i++)
        if (stat(list[i], &old) == 0 && old.st_dev == new.st_dev && old.st_ino == new.st_ino)
            return;
    live_add(list, n, cap, path);
}

static void live_add_glob(char **list, size_t *n, size_t cap, const char *folder, const char *tail)
{
    char pattern[4096];
    glob_t g;

    snprintf(pattern, sizeof pattern, "%s/%s", folder, tail);
    if (glob(pattern, 0, NULL, &g) == 0) {
        for (size_t i = 0; i < g.gl_pathc; i++) {
            const char *end = strrchr(g.gl_pathv[i], '/') + strlen("/python3");

            if (strspn(end, ".0123456789dmt") == strlen(end) && !strstr(g.gl_pathv[i], "/shims/"))
                live_add_new(list, n, cap, g.gl_pathv[i]);
        }
        globfree(&g);
    }
}

static size_t live_pythons(char **list, size_t cap)
{
    const char *path = getenv("PATH"), *root = getenv("PYENV_ROOT"), *home = getenv("HOME");
    const char *more = getenv("PROBING_TEST_PYTHONS");
    char folder[4096], *copy, *save = NULL;
    size_t n = 0;

    copy = strdup(path ? path : "/usr/bin");
    for (char *p = strtok_r(copy, ":", &save); p; p = strtok_r(NULL, ":", &save))
        live_add_glob(list, &n, cap, p, "python3*");
    free(copy);
    snprintf(folder, sizeof folder, "%s%s", root ? root : home ? home : "", root ? "" : "/.pyenv");
    live_add_glob(list, &n, cap, folder, "versions/*/bin/python3*");
    copy = strdup(more ? more : "");
    for (char *p = strtok_r(copy, ":", &save); p; p = strtok_r(NULL, ":", &save))
        live_add(list, &n, cap, p);
    free(copy);
    return n;
}

/* Runs the script under every Python and calls check for each that is readable. */
static void live_each(const char *script, void (*check)(struct live *t))
{
    char *pythons[64];
    size_t n = live_pythons(pythons, 64);
    struct live t;

    for (size_t i = 0; i < n; i++) {
        live_start(&t, pythons[i], script);
        if (live_meet(&t)) {
            print_message("%d.%d.%d %s\n", t.major, t.minor, t.micro, pythons[i]);
            check(&t);
        }
        live_stop(&t);
        free(pythons[i]);
    }
}

#endif
