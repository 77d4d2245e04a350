#include "agent/tracer.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent/agent.h"

static bool yama_wants_consent(void)
{
    int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
    char scope = '0';
    bool read_it;

    if (fd < 0)
        return false;
    read_it = read(fd, &scope, 1) == 1;
    close(fd);
    return read_it && scope == '1';
}

/* PR_SET_PTRACER cannot be read back, so it is touched only where it makes a difference. */
static void set_tracer(struct pb_self *self, pid_t pid)
{
    if ((!pid && !self->ptracer_set) || (pid && !yama_wants_consent()))
        return;
    if (prctl(PR_SET_PTRACER, (unsigned long)pid, 0, 0, 0) == 0)
        self->ptracer_set = pid != 0;
}

void pb_tracer_allow(struct pb_self *self, pid_t pid)
{
    if (pid > 0 && pb_self_setting(self, PB_SET_AGENT_ALLOW_PTRACE))
        set_tracer(self, pid);
}

void pb_tracer_forbid(struct pb_self *self)
{
    set_tracer(self, 0);
}
