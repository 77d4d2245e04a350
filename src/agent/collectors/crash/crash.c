/*
 * crash - a report when the process crashes; off unless asked for.
 */
#include "agent/collectors/crash/crash.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/arch/symver.h"
#include "agent/collectors/collect.h"
#include "agent/collectors/internal.h"
#include "agent/core/gil.h"
#include "store/file.h"

static int enter(struct pb_self *self, struct pb_err *err);
static void poll(struct pb_self *self, uint64_t now_ns);
static void leave(struct pb_self *self);
static void configure(struct pb_self *self);
static void forked(struct pb_self *self);

const struct pb_collector pb_collector_crash = {
    .name = "crash",
    .doc = "reports of signals that end the process and of uncaught exceptions",
    .on = PB_SET_CRASH,
    .enter = enter,
    .poll = poll,
    .leave = leave,
    .configure = configure,
    .forked = forked,
    .state_size = sizeof(struct pb_crash_state),
};

struct pb_crash_state *pb_crash_state(struct pb_self *self)
{
    return pb_collect_state(self, PB_COLLECTOR_ID_crash);
}

/* The page in the folder; without one the record is in private memory alone. */
static void map_page(struct pb_self *self, struct pb_crash_state *s)
{
    int folder, fd;
    void *p = MAP_FAILED;

    if (s->page && s->page_pid == getpid())
        return;
    s->page = NULL;
    pthread_mutex_lock(&self->collect->lock);
    folder = pb_collect_folder(self->collect);
    pthread_mutex_unlock(&self->collect->lock);
    if (folder < 0)
        return;
    fd = openat(folder, PB_HOME_CRASH, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    close(folder);
    if (fd < 0)
        return;
    if (pb_ring_file_reserve(fd, 4096) == 0)
        p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (p == MAP_FAILED)
        return;
    s->page_pid = getpid();
    s->page = p;
}

static void read_texts(struct pb_self *self, struct pb_crash_state *s)
{
    const char *data;

    pthread_mutex_lock(&self->lock);
    data = pb_settings_text(&self->settings, PB_SET_CRASH_DATA);
    snprintf(s->tool, sizeof s->tool, "%s",
             pb_settings_text(&self->settings, PB_SET_CRASH_TOOL));
    snprintf(s->data, sizeof s->data, "%s%s", data[0] ? "PROBING_HOME=" : "", data);
    pthread_mutex_unlock(&self->lock);
}

static const char *trouble(const struct pb_crash_state *s)
{
    if (!s->tool[0])
        return "which program makes the report? use inject -c, or set crash.tool";
    return access(s->tool, X_OK) < 0 ? "crash.tool cannot be run in this process" : NULL;
}

/* At once where a signal could end the process before the interpreter can be entered. */
static void configure(struct pb_self *self)
{
    struct pb_crash_state *s = pb_crash_state(self);

    if (!s)
        return;
    if (!pb_self_setting(self, PB_SET_CRASH)) {
        if (s->armed)
            pb_crash_disarm(s);
        return;
    }
    read_texts(self, s);
    if (trouble(s))
        return;
    map_page(self, s);
    if (syscall(SYS_gettid) == getpid())
        pb_crash_altstack_set();
    pb_crash_arm(s);
}

static int on_main_thread(void *arg)
{
    (void)arg;
    if (syscall(SYS_gettid) == getpid())
        pb_crash_altstack_set();
    return 0;
}

static int enter(struct pb_self *self, struct pb_err *err)
{
    struct pb_crash_state *s = pb_crash_state(self);
    const char *why = trouble(s);

    if (why)
        return pb_err_set(err, PB_FAIL, "%s", why);
    pb_gil_add_pending(self, on_main_thread);
    return pb_crash_hooks_enter(self, s, err);
}

static void poll(struct pb_self *self, uint64_t now_ns)
{
    (void)now_ns;
    pb_crash_hooks_poll(self, pb_crash_state(self));
}

static void leave(struct pb_self *self)
{
    struct pb_crash_state *s = pb_crash_state(self);

    pb_crash_hooks_leave(self, s);
    /* The end of the interpreter is a time to crash like any other. */
    if (!self->finalizing)
        pb_crash_disarm(s);
}

/* The handlers and the memory are there already; the folder is the parent's. */
static void forked(struct pb_self *self)
{
    struct pb_crash_state *s = pb_crash_state(self);

    s->page = NULL;
    s->busy = s->child_tid = s->reports = 0;
    s->last_ns = 0;
}
