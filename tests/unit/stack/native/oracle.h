/* A stopped thread, unwound by us and by libdw. Shared by the oracle tests. */
#ifndef PB_TEST_ORACLE_H
#define PB_TEST_ORACLE_H

#include <elf.h>
#include <elfutils/libdwfl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "pb_test.h"
#include "stack/native/native.h"

#define FRAMES_MAX 4096
#define STACK_MAX ((size_t)1 << 20)

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
    /* One mapping may hold the stacks of several threads, with guards in between. */
    t->stack.len = pb_mem_get_start(mem, t->stack.base, bytes, t->stack.len);
    assert_true(t->stack.len > 0);
    t->stack.bytes = bytes;
    return true;
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

#endif
