/* What a thread of the program is in the midst of, kept by the C library's thread data. */
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/arch/symver.h"
#include "base/pages.h"
#include "agent/user/internal.h"

enum { BATCH = 4096 / sizeof(struct pb_user_thread) };

static void release_slot(void *arg)
{
    struct pb_self *self = pb_self();
    struct pb_user_thread *thread = arg;

    pthread_mutex_lock(&self->user->lock);
    thread->next = self->user->free_threads;
    self->user->free_threads = thread;
    pthread_mutex_unlock(&self->user->lock);
}

bool pb_user_make_key(struct pb_self *self)
{
    return pthread_key_create(&self->user->key, release_slot) == 0;
}

static struct pb_user_thread *claim_slot(struct pb_user *user)
{
    struct pb_user_thread *thread;

    pthread_mutex_lock(&user->lock);
    if (!user->free_threads) {
        struct pb_user_thread *batch = pb_pages_get(BATCH * sizeof *batch);

        for (size_t i = 0; batch && i < BATCH; i++) {
            batch[i].next = user->free_threads;
            user->free_threads = &batch[i];
        }
    }
    thread = user->free_threads;
    if (thread)
        user->free_threads = thread->next;
    pthread_mutex_unlock(&user->lock);
    return thread;
}

struct pb_user_thread *pb_user_thread(struct pb_self *self)
{
    struct pb_user_thread *thread = pthread_getspecific(self->user->key);

    if (thread)
        return thread;
    thread = claim_slot(self->user);
    if (!thread)
        return NULL;
    *thread = (struct pb_user_thread){.span = PB_NULL_INT};
    if (pthread_setspecific(self->user->key, thread) == 0)
        return thread;
    release_slot(thread);
    return NULL;
}

int64_t pb_user_tid(struct pb_user_thread *thread)
{
    if (!thread->tid)
        thread->tid = syscall(SYS_gettid);
    return thread->tid;
}
