#include "agent/collectors/progress.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/arch/symver.h"
#include "agent/collectors/internal.h"
#include "base/pages.h"
#include "agent/collectors/state.h"
#include "agent/core/self.h"
#include "store/file.h"
#include "store/format.h"
#include "store/text.h"

#define UNFINISHED PB_HOME_PROGRESS ".new"
#define NAME_MAX_BYTES 512

static void free_entry(struct pb_progress_state *s, size_t i)
{
    struct pb_progress_thread *p = &s->page->threads[i];

    p->phase = PB_PHASE_OTHER;
    p->module = p->collective = p->group = 0;
    s->tids[i] = 0;
    p->tid = 0;
}

/* Destructor of the key: the thread ends. */
static void thread_ends(void *entry)
{
    struct pb_progress_state *s = &pb_self()->collect->progress;
    struct pb_progress_thread *p = entry;

    if (p != &s->spare)
        free_entry(s, (size_t)(p - s->page->threads));
}

static void fill_head(struct pb_progress_page *page)
{
    struct pb_progress_head *h = &page->head;

    h->major = PB_PROGRESS_MAJOR;
    h->minor = PB_PROGRESS_MINOR;
    h->file_size = PB_PROGRESS_SIZE;
    h->thread_size = sizeof *page->threads;
    h->nthreads = PB_PROGRESS_THREADS;
    h->names_at = PB_PROGRESS_NAMES_AT;
    h->names_size = PB_PROGRESS_SIZE - PB_PROGRESS_NAMES_AT;
    h->step = h->epoch = PB_NULL_INT;
    for (size_t i = 0; i < PB_PROGRESS_THREADS; i++)
        page->threads[i].step = page->threads[i].collective_seq = PB_NULL_INT;
    memcpy(h->magic, PB_PROGRESS_MAGIC, sizeof h->magic);
}

/* A thread may end meanwhile: it gives its entry up first in tids, then in the page. */
static void list_threads(struct pb_progress_state *s)
{
    for (size_t i = 0; i < PB_PROGRESS_THREADS; i++) {
        s->page->threads[i].tid = s->tids[i];
        if (!s->tids[i])
            s->page->threads[i].tid = 0;
    }
}

/* New pages at the same address; async-signal-safe. fd -1: private ones. */
static bool map_over(struct pb_progress_state *s, int fd)
{
    int flags = MAP_FIXED | (fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS);

    return mmap(s->page, PB_PROGRESS_SIZE, PROT_READ | PROT_WRITE, flags, fd, 0) != MAP_FAILED;
}

bool pb_progress_prepare(struct pb_self *self)
{
    struct pb_progress_state *s = &self->collect->progress;

    if (!s->page) {
        s->page = pb_pages_get(PB_PROGRESS_SIZE);
        if (s->page)
            fill_head(s->page);
    }
    if (!s->has_key)
        s->has_key = pthread_key_create(&s->key, thread_ends) == 0;
    return s->page != NULL;
}

/* Its pages are reserved before they are mapped. -1: there is no room for it. */
static int make_file(int folder)
{
    int fd = openat(folder, UNFINISHED, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0 || pb_ring_file_reserve(fd, PB_PROGRESS_SIZE) == 0)
        return fd;
    unlinkat(folder, UNFINISHED, 0);
    close(fd);
    return -1;
}

/* Called with c->lock held. */
static void publish(struct pb_collect *c)
{
    struct pb_progress_state *s = &c->progress;
    int folder = pb_collect_folder(c), fd = folder >= 0 ? make_file(folder) : -1;

    if (fd >= 0 && map_over(s, fd)) {
        memset(s->index, 0, sizeof s->index);
        fill_head(s->page);
        list_threads(s);
        renameat(folder, UNFINISHED, folder, PB_HOME_PROGRESS);
        s->is_file = true;
    }
    if (fd >= 0)
        close(fd);
    if (folder >= 0)
        close(folder);
}

void pb_progress_publish(struct pb_self *self)
{
    struct pb_collect *c = self->collect;

    pthread_mutex_lock(&c->lock);
    if (c->on && !c->progress.is_file && c->progress.page)
        publish(c);
    pthread_mutex_unlock(&c->lock);
}

void pb_progress_retire(struct pb_self *self, bool keep)
{
    struct pb_progress_state *s = &self->collect->progress;
    int folder = s->is_file && !keep ? pb_collect_folder(self->collect) : -1;

    if (s->is_file && map_over(s, -1)) {
        s->is_file = false;
        fill_head(s->page);
    }
    if (folder >= 0) {
        unlinkat(folder, PB_HOME_PROGRESS, 0);
        close(folder);
    }
}

void pb_progress_forked(struct pb_self *self)
{
    struct pb_progress_state *s = &self->collect->progress;
    struct pb_progress_thread *own = s->has_key ? pthread_getspecific(s->key) : NULL;

    if (!s->page || !map_over(s, -1))
        return;
    s->is_file = false;
    fill_head(s->page);
    for (size_t i = 0; i < PB_PROGRESS_THREADS; i++)
        s->tids[i] = own == &s->page->threads[i] ? (int32_t)syscall(SYS_gettid) : 0;
    list_threads(s);
}

struct pb_progress_thread *pb_progress_thread(struct pb_self *self)
{
    struct pb_progress_state *s = &self->collect->progress;
    struct pb_progress_thread *own = s->has_key ? pthread_getspecific(s->key) : &s->spare;
    int32_t tid;

    if (own)
        return own;
    tid = (int32_t)syscall(SYS_gettid);
    for (size_t i = 0; i < PB_PROGRESS_THREADS && !own; i++) {
        int32_t none = 0;

        if (atomic_compare_exchange_strong(&s->tids[i], &none, tid))
            own = &s->page->threads[i];
    }
    if (!own || pthread_setspecific(s->key, own) != 0) {
        if (own)
            free_entry(s, (size_t)(own - s->page->threads));
        return &s->spare;
    }
    own->step = own->collective_seq = PB_NULL_INT;
    own->tid = tid;
    return own;
}

static struct pb_ring_text *entry_of(struct pb_progress_state *s, uint32_t name)
{
    return (void *)((char *)s->page + PB_PROGRESS_NAMES_AT + (size_t)(name - 1) * 8);
}

/* Behind the names that are there; 0 when it does not fit. */
static uint32_t append_name(struct pb_progress_state *s, const char *text, size_t len,
                            uint32_t hash)
{
    struct pb_progress_head *h = &s->page->head;
    uint32_t at = h->names_used, space = (uint32_t)pb_text_space(len);
    struct pb_ring_text *e = entry_of(s, at / 8 + 1);

    if (space > PB_PROGRESS_SIZE - PB_PROGRESS_NAMES_AT - at)
        return 0;
    memcpy(e->bytes, text, len);
    e->len = (uint32_t)len;
    e->hash = hash;
    h->names_used = at + space;
    return at / 8 + 1;
}

uint32_t pb_progress_name(struct pb_self *self, const char *text, size_t len)
{
    struct pb_progress_state *s = &self->collect->progress;
    uint32_t hash, i;

    if (!s->is_file || !len)
        return 0;
    len = pb_text_cut(text, len, NAME_MAX_BYTES);
    hash = pb_text_hash(PB_TEXT_HASH, text, len);
    for (i = hash & (PB_PROGRESS_INDEX - 1); s->index[i]; i = (i + 1) & (PB_PROGRESS_INDEX - 1)) {
        const struct pb_ring_text *e = entry_of(s, s->index[i]);

        if (e->hash == hash && e->len == len && memcmp(e->bytes, text, len) == 0)
            return s->index[i];
    }
    return s->index[i] = append_name(s, text, len, hash);
}
