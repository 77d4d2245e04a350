/*
 * Why a process may not be looked at, told from what anybody may see of it.
 *
 * The kernel answers EPERM or EACCES for a dozen reasons. Which one it was
 * follows from the order of its own checks: user, dumpable, capability, and
 * then the security modules (Yama), which guard memory but not /proc/PID/maps.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/net/agent_socket.h"
#include "host/text/arena.h"
#include "host/process/mem.h"
#include "host/process/proc.h"
#include "host/process/stall.h"

#define PF_KTHREAD 0x00200000u
#define CAP_SYS_PTRACE_BIT 19
#define CONSENT_MS 1000

static int read_number(const char *path)
{
    char text[32] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        return -1;
    n = read(fd, text, sizeof text - 1);
    close(fd);
    return n > 0 ? (int)strtol(text, NULL, 10) : -1;
}

static bool have_ptrace_capability(void)
{
    struct pb_arena a = PB_ARENA_INIT;
    size_t len;
    char *text = pb_proc_read(getpid(), "status", &a, &len);
    char *line = text ? strstr(text, "CapEff:") : NULL;
    uint64_t caps = line ? strtoull(line + strlen("CapEff:"), NULL, 16) : 0;

    pb_arena_finish(&a);
    return caps >> CAP_SYS_PTRACE_BIT & 1;
}

/* The kernel gives the files of a process that is not dumpable to root. */
static bool is_dumpable(pid_t pid, uid_t euid)
{
    char path[64];
    struct stat st;

    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    return stat(path, &st) < 0 || st.st_uid == euid;
}

static int deny(struct pb_err *err, pid_t pid, const char *hint, const char *why)
{
    if (geteuid() == 0)
        return pb_err_set(err, PB_DENIED, "%d: not permitted: %s", (int)pid, why);
    if (!hint)
        return pb_err_set(err, PB_DENIED, "%d: not permitted: %s. Run as root", (int)pid, why);
    return pb_err_set(err, PB_DENIED, "%d: not permitted: %s. Run as root, or: sudo %s", (int)pid,
                      why, hint);
}

/* What a security module may have against it, once the classic checks pass. */
static int deny_by_module(struct pb_err *err, pid_t pid, const char *hint)
{
    switch (read_number("/proc/sys/kernel/yama/ptrace_scope")) {
    case 1:
        return deny(err, pid, hint,
                    "kernel.yama.ptrace_scope is 1: only a parent may look into a process");
    case 2:
        return deny(err, pid, hint, "kernel.yama.ptrace_scope is 2: only root may look");
    case 3:
        return pb_err_set(err, PB_DENIED,
                          "%d: not permitted: kernel.yama.ptrace_scope is 3: nobody may look "
                          "until a reboot with another value",
                          (int)pid);
    default:
        return deny(err, pid, hint,
                    "a security module or a container's seccomp filter refuses it (a container "
                    "may need --cap-add SYS_PTRACE)");
    }
}

static int explain(struct pb_err *err, pid_t pid, const char *hint, bool maps_readable)
{
    struct pb_proc_status st;
    struct pb_arena a = PB_ARENA_INIT;
    char why[160];

    if (pb_proc_status(&st, pid, err) < 0)
        return -1;
    if (geteuid() == 0 && !have_ptrace_capability())
        return deny(err, pid, hint,
                    "root without CAP_SYS_PTRACE; start the container with --cap-add SYS_PTRACE");
    if (maps_readable)
        return deny_by_module(err, pid, hint);
    if (geteuid() == 0)
        return deny(err, pid, hint, "it belongs to an outer user namespace or is protected");
    if (st.uid != geteuid() || st.euid != geteuid()) {
        snprintf(why, sizeof why, "owned by %.100s", pb_proc_user(st.euid, &a));
        pb_arena_finish(&a);
        return deny(err, pid, hint, why);
    }
    if (!is_dumpable(pid, st.euid))
        return deny(err, pid, hint,
                    "it is not dumpable (started with extra privileges, or asked for it)");
    return deny(err, pid, hint, "it has more privileges or another user namespace");
}

/* Start of the first readable mapping: 0 none there, with errno when maps says no. */
static int first_mapping(pid_t pid, uint64_t *ret)
{
    char path[64], text[4096];
    int fd, saved, slot;
    ssize_t n;

    *ret = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    slot = pb_stall_begin(pid);
    n = slot == PB_STALL_REFUSED ? -1 : read(fd, text, sizeof text - 1);
    saved = errno;
    pb_stall_end(slot);
    close(fd);
    errno = saved;
    if (n < 0)
        return -1;
    text[n] = '\0';
    for (char *line = text; line && *line; line = strchr(line, '\n')) {
        uint64_t start;
        char read_flag;

        if (*line == '\n')
            line++;
        if (sscanf(line, "%" SCNx64 "-%*x %c", &start, &read_flag) == 2 && read_flag == 'r') {
            *ret = start;
            break;
        }
    }
    return 0;
}

/* Class and machine of the program a process runs; false when they cannot be read. */
static bool read_elf_kind(const char *path, unsigned char *ret_class, uint16_t *ret_machine)
{
    Elf64_Ehdr eh;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        return false;
    /* e_ident and e_machine lie at the same place in both classes. */
    n = read(fd, &eh, offsetof(Elf64_Ehdr, e_version));
    close(fd);
    if (n != (ssize_t)offsetof(Elf64_Ehdr, e_version) || memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0)
        return false;
    *ret_class = eh.e_ident[EI_CLASS];
    *ret_machine = eh.e_machine;
    return true;
}

static int check_machine(pid_t pid, struct pb_err *err)
{
    unsigned char class, own_class;
    uint16_t machine, own_machine;
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    if (!read_elf_kind(path, &class, &machine) ||
        !read_elf_kind("/proc/self/exe", &own_class, &own_machine))
        return 0; /* not known to be foreign */
    if (class == ELFCLASS32)
        return pb_err_set(err, PB_FAIL, "%d: a 32-bit process; only 64-bit processes can be read",
                          (int)pid);
    if (class != own_class || machine != own_machine)
        return pb_err_set(err, PB_FAIL,
                          "%d: runs a program for another processor; it cannot be read", (int)pid);
    return 0;
}

/* What can be told without asking for the process's memory. */
static int check_alive(pid_t pid, struct pb_err *err)
{
    struct pb_proc_status status;
    struct pb_proc_stat st;

    if (pb_proc_stat(&st, pid, 0, NULL) < 0) {
        /* hidepid hides the folder of another user's process, not its existence. */
        if (pid > 0 && kill(pid, 0) < 0 && errno == EPERM)
            return pb_err_set(err, PB_DENIED,
                              "%d: not permitted: another user's process, hidden by /proc's "
                              "hidepid option. Run as root",
                              (int)pid);
        return pb_err_set(err, PB_NO_TARGET, "%d: no such process", (int)pid);
    }
    if (st.state == 'Z' || st.state == 'X')
        return pb_err_set(err, PB_NO_TARGET,
                          "%d: a zombie: it has ended and waits for its parent %d to notice",
                          (int)pid, (int)st.ppid);
    if (st.flags & PF_KTHREAD)
        return pb_err_set(err, PB_FAIL, "%d: a kernel thread (%s), not a Python process", (int)pid,
                          st.comm);
    if (pb_proc_status(&status, pid, err) < 0)
        return -1;
    if (status.tgid != pid)
        return pb_err_set(err, PB_NO_TARGET, "%d: a thread of process %d; name the process",
                          (int)pid, (int)status.tgid);
    return 0;
}

/*
 * Yama lets nobody look but those whom the process has named. The agent in it names whoever comes
 * to its socket, which only its owner and root can reach.
 */
static bool ask_agent(pid_t pid)
{
    struct pb_agent agent;

    if (read_number("/proc/sys/kernel/yama/ptrace_scope") != 1 ||
        pb_agent_open(&agent, pid, CONSENT_MS, NULL) < 0)
        return false;
    pb_agent_close(&agent);
    return true;
}

static bool may_read(struct pb_mem *mem, pid_t pid, uint64_t addr)
{
    char byte;
    int why;

    errno = 0;
    if (pb_mem_get(mem, addr, &byte, 1))
        return true;
    why = errno;
    if ((why == EPERM || why == EACCES) && ask_agent(pid))
        return pb_mem_get(mem, addr, &byte, 1);
    errno = why;
    return false;
}

int pb_proc_check_access(pid_t pid, const char *command_hint, struct pb_err *err)
{
    struct pb_mem mem;
    uint64_t addr;

    if (check_alive(pid, err) < 0)
        return -1;
    if (first_mapping(pid, &addr) < 0) {
        if (errno == ENOENT || errno == ESRCH)
            return pb_err_set(err, PB_NO_TARGET, "%d: no such process", (int)pid);
        if (errno == ETIMEDOUT)
            return pb_err_set(err, PB_TIMEOUT, "%d: " PB_STALL_REASON, (int)pid);
        return explain(err, pid, command_hint, false);
    }
    if (addr == 0)
        return pb_err_set(err, PB_NO_TARGET, "%d: has just ended", (int)pid);
    pb_mem_init_process(&mem, pid);
    if (!may_read(&mem, pid, addr)) {
        if (errno == EPERM || errno == EACCES)
            return explain(err, pid, command_hint, true);
        if (errno == ESRCH)
            return pb_err_set(err, PB_NO_TARGET, "%d: has just ended", (int)pid);
        if (errno == ETIMEDOUT)
            return pb_err_set(err, PB_TIMEOUT, "%d: " PB_STALL_REASON, (int)pid);
        if (errno == ENOSYS)
            return pb_err_set(err, PB_FAIL, "%d: this kernel has no process_vm_readv", (int)pid);
        /* EFAULT: the page went away in between, but the kernel let us in. */
    }
    return check_machine(pid, err);
}
