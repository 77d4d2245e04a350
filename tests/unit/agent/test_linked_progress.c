/* What a process says about where it is, read as others read it. */
#include "pb_test.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/collectors/progress.h"
#include "agent/collectors/state.h"
#include "agent/core/self.h"
#include "store/format.h"

static char root[] = "/tmp/probing-unit-XXXXXX";

/* The file as it is on disk, or all zero. */
static struct pb_progress_page *read_file(void)
{
    static struct pb_progress_page page;
    char path[64];
    int fd;

    snprintf(path, sizeof path, "%s/progress", root);
    memset(&page, 0, sizeof page);
    fd = open(path, O_RDONLY);
    if (fd >= 0) {
        assert_int_equal(pread(fd, &page, sizeof page, 0), sizeof page);
        close(fd);
    }
    return &page;
}

/* A start of the agent fails here, without Python; its state is there. */
static struct pb_self *begin(void)
{
    struct pb_self *self;

    probing_start("");
    self = pb_self();
    assert_non_null(self);
    snprintf(self->collect->home, sizeof self->collect->home, "%s", root);
    self->collect->on = true;
    assert_true(pb_progress_prepare(self));
    return self;
}

static void stores_without_a_file(void **state)
{
    struct pb_self *self = begin();
    struct pb_progress_thread *p = pb_progress_thread(self);

    (void)state;
    pb_progress_begin(p, PB_PHASE_FORWARD, 5);
    assert_int_equal(p->phase, PB_PHASE_FORWARD);
    assert_int_equal(pb_progress_name(self, "layer", 5), 0);
    assert_int_equal(read_file()->head.file_size, 0);
}

static void tells_readers(void **state)
{
    struct pb_self *self = begin();
    struct pb_progress_thread *p = pb_progress_thread(self);
    struct pb_progress_before before;
    const struct pb_progress_page *page;
    uint32_t name;

    (void)state;
    pb_progress_publish(self);
    assert_ptr_equal(pb_progress_thread(self), p);
    name = pb_progress_name(self, "layer.0", 7);
    assert_int_not_equal(name, 0);
    assert_int_equal(pb_progress_name(self, "layer.0", 7), name);
    assert_int_not_equal(pb_progress_name(self, "layer.1", 7), name);
    before = pb_progress_begin(p, PB_PHASE_BACKWARD, 77);
    pb_progress_module(p, name);
    page = read_file();
    assert_memory_equal(page->head.magic, PB_PROGRESS_MAGIC, 8);
    assert_int_equal(page->head.step, PB_NULL_INT);
    assert_int_equal(page->threads[0].tid, syscall(SYS_gettid));
    assert_int_equal(page->threads[0].phase, PB_PHASE_BACKWARD);
    assert_int_equal(page->threads[0].phase_ns, 77);
    assert_int_equal(page->threads[0].module, name);
    pb_progress_end(p, &before);
    assert_int_equal(read_file()->threads[0].phase, before.phase);
}

static void *claim(void *arg)
{
    struct pb_progress_thread *p = pb_progress_thread(pb_self());

    p->module = 7;
    *(struct pb_progress_thread **)arg = p;
    return NULL;
}

/* An entry belongs to a thread until that ends, and to another one after that. */
static void threads_come_and_go(void **state)
{
    struct pb_progress_thread *first, *second;
    pthread_t thread;

    (void)state;
    pthread_create(&thread, NULL, claim, &first);
    pthread_join(thread, NULL);
    assert_int_equal(first->tid, 0);
    assert_int_equal(first->module, 0);
    pthread_create(&thread, NULL, claim, &second);
    pthread_join(thread, NULL);
    assert_ptr_equal(first, second);
    assert_int_equal(read_file()->threads[1].tid, 0);
}

static void *claim_and_wait(void *arg)
{
    pb_progress_thread(pb_self())->phase = PB_PHASE_DATA;
    pthread_barrier_wait(arg);
    pthread_barrier_wait(arg);
    return NULL;
}

/* More threads than entries: the others store where nobody reads. */
static void more_threads_than_entries(void **state)
{
    enum { N = PB_PROGRESS_THREADS + 8 };
    pthread_barrier_t barrier;
    pthread_t threads[N];
    int used = 0;

    (void)state;
    pthread_barrier_init(&barrier, NULL, N + 1);
    for (int i = 0; i < N; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, claim_and_wait, &barrier), 0);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < PB_PROGRESS_THREADS; i++)
        used += read_file()->threads[i].tid != 0;
    assert_int_equal(used, PB_PROGRESS_THREADS);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < N; i++)
        pthread_join(threads[i], NULL);
    used = 0;
    for (int i = 0; i < PB_PROGRESS_THREADS; i++)
        used += read_file()->threads[i].tid != 0;
    assert_int_equal(used, 1);
}

/* Names that do not fit any more have no number; those before keep theirs. */
static void names_fill_up(void **state)
{
    struct pb_self *self = pb_self();
    uint32_t first = pb_progress_name(self, "layer.0", 7), last = 1;
    char name[32];

    (void)state;
    for (int i = 0; last && i < 100000; i++)
        last = pb_progress_name(self, name, (size_t)snprintf(name, sizeof name, "n%d", i));
    assert_int_equal(last, 0);
    assert_int_equal(pb_progress_name(self, "layer.0", 7), first);
    assert_true(read_file()->head.names_used <= PB_PROGRESS_SIZE - PB_PROGRESS_NAMES_AT);
}

/* A child writes nothing into its parent's file. */
static void a_child_is_on_its_own(void **state)
{
    struct pb_self *self = pb_self();
    int32_t tid = read_file()->threads[0].tid;
    pid_t child;
    int status;

    (void)state;
    self->collect->progress.page->head.step = 41;
    child = fork(); /* the agent's own handler has run by now */
    if (child == 0) {
        self->collect->progress.page->head.step = 99;
        _exit(pb_progress_thread(self)->tid == (int32_t)syscall(SYS_gettid) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(read_file()->head.step, 41);
    assert_int_equal(read_file()->threads[0].tid, tid);
}

/* After an eject the entry is at the same address, and nobody reads it. */
static void retired_and_published_again(void **state)
{
    struct pb_self *self = pb_self();
    struct pb_progress_thread *p = pb_progress_thread(self);

    (void)state;
    pb_progress_retire(self, false);
    p->phase = PB_PHASE_EVAL;
    assert_int_equal(read_file()->head.file_size, 0);
    pb_progress_publish(self);
    assert_ptr_equal(pb_progress_thread(self), p);
    assert_int_equal(read_file()->threads[0].tid, syscall(SYS_gettid));
    assert_int_equal(read_file()->head.names_used, 0);
    pb_progress_retire(self, true);
    assert_int_equal(read_file()->head.file_size, PB_PROGRESS_SIZE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stores_without_a_file),
        cmocka_unit_test(tells_readers),
        cmocka_unit_test(threads_come_and_go),
        cmocka_unit_test(more_threads_than_entries),
        cmocka_unit_test(names_fill_up),
        cmocka_unit_test(a_child_is_on_its_own),
        cmocka_unit_test(retired_and_published_again),
    };
    char path[64];
    int rc;

    if (!mkdtemp(root))
        return 1;
    rc = RUN_TESTS(tests);
    snprintf(path, sizeof path, "%s/progress", root);
    unlink(path);
    rmdir(root);
    return rc;
}
