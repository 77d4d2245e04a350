#include "host/process/stall.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/home.h"

#define FORGET_NS 600000000000ull
/* Of one other user: whoever has so many of them may have any number. */
#define USER_MAX 3

/* A read is as deep as anything can be: it gets no argument that says who looks on. */
static struct pb_stalls *in_use;
static _Thread_local unsigned last_slot;

/* A few milliseconds are nothing here, and this clock costs nothing. */
static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void pb_stalls_use(struct pb_stalls *s)
{
    in_use = s;
}

static uid_t owner_of(pid_t pid)
{
    char path[32];
    struct stat st;

    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    return stat(path, &st) == 0 ? st.st_uid : geteuid();
}

static bool is_refused(const struct pb_stalls *s, pid_t pid)
{
    uint64_t now = now_ns(), start = pb_home_start_time(pid);
    uid_t uid = owner_of(pid);
    int theirs = 0;

    for (int i = 0; i < PB_STALLED_MAX; i++) {
        const struct pb_stalled *one = &s->stalled[i];

        if (!one->pid || now - one->when_ns > FORGET_NS)
            continue;
        if (one->pid == pid && one->start == start)
            return true;
        theirs += one->uid == uid && uid != geteuid();
    }
    return theirs >= USER_MAX;
}

int pb_stall_begin(pid_t pid)
{
    struct pb_stalls *s = in_use;

    if (!s)
        return -1;
    if (s->first && !atomic_exchange(&s->begun, true))
        s->first();
    if (atomic_load_explicit(&s->nstalled, memory_order_acquire) && is_refused(s, pid)) {
        errno = ETIMEDOUT;
        return PB_STALL_REFUSED;
    }
    for (unsigned i = 0; i < PB_STALL_SLOTS; i++) {
        unsigned slot = (last_slot + i) % PB_STALL_SLOTS;
        uint64_t free = 0;

        if (!atomic_compare_exchange_strong(&s->slots[slot].since_ns, &free, now_ns()))
            continue;
        atomic_store_explicit(&s->slots[slot].pid, pid, memory_order_relaxed);
        last_slot = slot;
        return (int)slot;
    }
    return -1;
}

void pb_stall_end(int slot)
{
    if (slot < 0)
        return;
    atomic_store_explicit(&in_use->slots[slot].pid, 0, memory_order_relaxed);
    atomic_store_explicit(&in_use->slots[slot].since_ns, 0, memory_order_release);
}

pid_t pb_stalls_judge(struct pb_stalls *s, uint64_t limit_ns)
{
    uint64_t now = now_ns();

    for (int i = 0; i < PB_STALL_SLOTS; i++) {
        uint64_t since = atomic_load(&s->slots[i].since_ns);
        pid_t pid = atomic_load(&s->slots[i].pid);

        if (!since || !pid || now <= since || now - since < limit_ns)
            continue;
        s->stalled[atomic_load(&s->nstalled) % PB_STALLED_MAX] = (struct pb_stalled){
            .pid = pid, .uid = owner_of(pid), .start = pb_home_start_time(pid), .when_ns = now};
        atomic_fetch_add_explicit(&s->nstalled, 1, memory_order_release);
        return pid;
    }
    return 0;
}

void pb_stalls_clear(struct pb_stalls *s)
{
    for (int i = 0; i < PB_STALL_SLOTS; i++) {
        atomic_store(&s->slots[i].pid, 0);
        atomic_store(&s->slots[i].since_ns, 0);
    }
}
