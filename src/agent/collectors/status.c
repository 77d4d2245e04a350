/* The folder's `status`: what each collector does, how much is written, what went wrong. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/collectors/collect.h"
#include "agent/collectors/internal.h"

int pb_collect_write(int folder, const char *name, const char *text, size_t len)
{
    char part[24];
    ssize_t n;
    int fd;

    snprintf(part, sizeof part, "%.16s.new", name);
    fd = openat(folder, part, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    n = write(fd, text, len);
    close(fd);
    if (n == (ssize_t)len && renameat(folder, part, folder, name) == 0)
        return 0;
    unlinkat(folder, part, 0);
    return -ENOSPC;
}

struct text {
    char bytes[4096];
    size_t len;
};

/* A line that does not fit is left out. */
static void add(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *t, const char *fmt, ...)
{
    size_t room = sizeof t->bytes - t->len;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(t->bytes + t->len, room, fmt, ap);
    va_end(ap);
    if (n > 0 && (size_t)n < room)
        t->len += (size_t)n;
}

void pb_collect_write_status(struct pb_self *self, const char *state)
{
    struct pb_collect *c = self->collect;
    struct text t = {.len = 0};
    int folder = pb_collect_folder(c);

    if (folder < 0)
        return;
    add(&t, "agent.state=%s\n", state);
    for (int i = 0; pb_collectors[i]; i++) {
        const struct pb_collector_run *run = &c->runs[i];

        add(&t, "collector.%s=%s%s%s\n", pb_collectors[i]->name, run->state ? run->state : "off",
            run->reason[0] ? ": " : "", run->reason);
        if (run->cost_ns)
            add(&t, "spent.%s=%.3f\n", pb_collectors[i]->name, (double)run->cost_ns / 1e6);
    }
    add(&t, "profile.rate=%lld\n", (long long)pb_self_setting(self, PB_SET_PROFILE_RATE));
    add(&t, "store.bytes=%lld\n", (long long)pb_collect_ring_bytes(folder));
    if (c->note[0])
        add(&t, "store.note=%s\n", c->note);
    pb_collect_write(folder, PB_HOME_STATUS, t.bytes, t.len);
    close(folder);
}

void pb_collect_heartbeat(struct pb_self *self)
{
    int folder = pb_collect_folder(self->collect);

    if (folder < 0)
        return;
    utimensat(folder, PB_HOME_STATUS, NULL, AT_SYMLINK_NOFOLLOW);
    close(folder);
}

/* One line, whatever an error message holds. */
static void copy_line(char *to, size_t cap, const char *from)
{
    snprintf(to, cap, "%s", from);
    for (; *to; to++)
        if ((unsigned char)*to < ' ')
            *to = ' ';
}

void pb_collect_set_cost(struct pb_self *self, enum pb_collector_id id, uint64_t ns)
{
    struct pb_collect *c = self->collect;

    if (atomic_exchange(&c->runs[id].cost_ns, ns) != ns)
        c->status_stale = true;
}

void pb_collect_set_state(struct pb_self *self, enum pb_collector_id id, const char *state,
                          const char *reason)
{
    struct pb_collect *c = self->collect;
    struct pb_collector_run *run = &c->runs[id];

    pthread_mutex_lock(&c->lock);
    if (!run->state || strcmp(run->state, state) != 0 || strcmp(run->reason, reason) != 0) {
        run->state = state;
        copy_line(run->reason, sizeof run->reason, reason);
        c->status_stale = true;
    }
    pthread_mutex_unlock(&c->lock);
    if (c->status_stale && c->on)
        pb_self_wake(self);
}
