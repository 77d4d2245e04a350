#include "store/reader_progress.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/home.h"
#include "store/format.h"
#include "store/text.h"

int pb_progress_open(int dirfd)
{
    /* O_NONBLOCK: a pipe of that name must not hold us up. */
    int fd = openat(dirfd, PB_HOME_PROGRESS, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)))
        return fd;
    close(fd);
    errno = EINVAL;
    return -1;
}

static int check_head(const struct pb_progress_head *h, struct pb_err *err)
{
    if (memcmp(h->magic, PB_PROGRESS_MAGIC, sizeof h->magic) != 0)
        return pb_err_set(err, PB_FAIL, "progress: not such a file");
    if (h->major != PB_PROGRESS_MAJOR)
        return pb_err_set(err, PB_FAIL, "progress: format %u is not known here", h->major);
    if (h->thread_size != sizeof(struct pb_progress_thread) || h->nthreads > PB_PROGRESS_THREADS)
        return pb_err_set(err, PB_FAIL, "progress: its head makes no sense");
    return 0;
}

static void read_thread(const struct pb_progress_thread *t, struct pb_progress_at *ret)
{
    ret->tid = t->tid;
    ret->phase = t->phase < PB_PHASE_COUNT ? (enum pb_progress_phase)t->phase : PB_PHASE_OTHER;
    ret->phase_ns = t->phase_ns;
    ret->step = t->step;
    ret->module = t->module;
    ret->collective = t->collective;
    ret->group = t->group;
    ret->collective_seq = t->collective_seq;
    ret->collective_ns = t->collective_ns;
}

int pb_progress_read(int fd, struct pb_progress *ret, struct pb_err *err)
{
    struct pb_progress_page page;

    if (pread(fd, &page, sizeof page, 0) != (ssize_t)sizeof page)
        return pb_err_set(err, PB_FAIL, "progress: it is too short");
    if (check_head(&page.head, err) < 0)
        return -1;
    ret->step_tid = page.head.step_tid;
    ret->step = page.head.step;
    ret->epoch = page.head.epoch;
    ret->steps_ended = page.head.steps_ended;
    ret->step_ended_ns = page.head.step_ended_ns;
    ret->step_took_ns = page.head.step_took_ns;
    ret->nthreads = 0;
    for (uint32_t i = 0; i < page.head.nthreads; i++)
        if (page.threads[i].tid > 0)
            read_thread(&page.threads[i], &ret->threads[ret->nthreads++]);
    return 0;
}

size_t pb_progress_text(int fd, uint32_t name, char *buf, size_t cap)
{
    struct pb_ring_text entry;
    uint64_t at = PB_PROGRESS_NAMES_AT + ((uint64_t)name - 1) * 8;
    size_t len;

    buf[0] = '\0';
    if (!name || at > PB_PROGRESS_SIZE - sizeof entry ||
        pread(fd, &entry, sizeof entry, (off_t)at) != (ssize_t)sizeof entry || !entry.hash ||
        entry.len > PB_PROGRESS_SIZE - at - sizeof entry)
        return 0;
    len = entry.len < cap - 1 ? entry.len : cap - 1;
    if (pread(fd, buf, len, (off_t)(at + sizeof entry)) != (ssize_t)len)
        len = 0;
    len = pb_text_cut(buf, len, cap - 1);
    buf[len] = '\0';
    return len;
}

const char *pb_progress_phase_name(enum pb_progress_phase phase)
{
    static const char *const names[] = {
#define X(id, number, name) [number] = name,
        PB_PROGRESS_PHASES(X)
#undef X
    };

    return (unsigned)phase < PB_PHASE_COUNT ? names[phase] : "other";
}
