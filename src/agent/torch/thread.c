#include "agent/torch/thread.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "agent/arch/symver.h"
#include "agent/torch/torch.h"

static void release_entry(struct pb_torch_thread *th)
{
    th->top = NULL;
    th->depth = th->fetching = 0;
    th->serving = th->tracing = th->passed = false;
    th->taken = false;
}

/* Destructor of the key. The thread's pthread_t may soon be that of another thread. */
static void thread_ends(void *entry)
{
    struct pb_torch *t = pb_torch_state(pb_self());
    pthread_t self = pthread_self();

    atomic_compare_exchange_strong(&t->threads.caller, &self, (pthread_t)0);
    release_entry(entry);
}

static struct pb_torch_thread *claim_entry(struct pb_torch *t)
{
    for (int i = 0; i < PB_TORCH_THREADS; i++) {
        struct pb_torch_thread *th = &t->thread_list[i];

        if (atomic_exchange(&th->taken, true))
            continue;
        if (pthread_setspecific(t->threads.key, th) == 0) {
            th->tid = syscall(SYS_gettid);
            th->progress = pb_progress_thread(t->self);
            return th;
        }
        th->taken = false;
        break;
    }
    return NULL;
}

struct pb_torch_thread *pb_torch_thread_find(struct pb_torch *t)
{
    struct pb_torch_thread *th;

    if (!t->threads.has_key)
        t->threads.has_key = pthread_key_create(&t->threads.key, thread_ends) == 0;
    if (!t->threads.has_key)
        return NULL;
    th = pthread_getspecific(t->threads.key);
    if (!th)
        th = claim_entry(t);
    if (th) {
        t->threads.caller = pthread_self();
        t->threads.called = th;
    }
    return th;
}

void pb_torch_threads_forked(struct pb_torch *t)
{
    struct pb_torch_thread *own = t->threads.has_key ? pthread_getspecific(t->threads.key) : NULL;

    for (int i = 0; i < PB_TORCH_THREADS; i++)
        if (&t->thread_list[i] != own)
            release_entry(&t->thread_list[i]);
    if (own)
        own->tid = syscall(SYS_gettid);
    t->threads.caller = (pthread_t)0;
}
