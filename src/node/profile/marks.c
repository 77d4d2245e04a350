#include "node/profile/marks.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/process/proc.h"
#include "store/format.h"

#define LOOK_NS 2000000000ull

void pb_marks_init(struct pb_marks *m, const struct pb_store *s)
{
    *m = (struct pb_marks){.uid = s->uid, .inner = s->ns_pid != s->process.pid, .fd = -1};
    snprintf(m->path, sizeof m->path, "%s", s->path);
}

void pb_marks_finish(struct pb_marks *m)
{
    if (m->fd >= 0)
        close(m->fd);
    m->fd = -1;
}

/* torch may be imported at any time. */
static void open_file(struct pb_marks *m)
{
    int folder = open(m->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (folder < 0)
        return;
    if (fstat(folder, &st) == 0 && st.st_uid == m->uid)
        m->fd = pb_progress_open(folder);
    close(folder);
}

void pb_marks_read(struct pb_marks *m, uint64_t now_ns)
{
    struct pb_err ignored = {0};

    if (m->fd < 0 && now_ns >= m->look_ns) {
        m->look_ns = now_ns + LOOK_NS;
        open_file(m);
    }
    m->known = m->fd >= 0 && pb_progress_read(m->fd, &m->now, &ignored) == 0;
}

/* Its number in the process's own pid namespace. */
static pid_t inner_tid(pid_t tid)
{
    struct pb_proc_status st;
    struct pb_err ignored = {0};

    return pb_proc_status(&st, tid, &ignored) == 0 ? st.ns_pid : 0;
}

struct pb_fold_mark pb_marks_of(const struct pb_marks *m, pid_t tid)
{
    struct pb_fold_mark mark = {-1, 0, 0};

    if (!m->known)
        return mark;
    if (m->now.step != PB_NULL_INT)
        mark.step = m->now.step;
    if (m->inner && m->now.nthreads)
        tid = inner_tid(tid);
    for (uint32_t i = 0; i < m->now.nthreads; i++) {
        const struct pb_progress_at *t = &m->now.threads[i];

        if (t->tid != tid)
            continue;
        if (t->step != PB_NULL_INT)
            mark.step = t->step;
        mark.phase = (uint32_t)t->phase + 1;
        mark.module = t->module;
        break;
    }
    return mark;
}

const char *pb_marks_phase(uint32_t phase)
{
    return phase ? pb_progress_phase_name((enum pb_progress_phase)(phase - 1)) : NULL;
}

const char *pb_marks_module(const struct pb_marks *m, uint32_t module, char buf[PB_MARK_TEXT])
{
    if (!module || m->fd < 0 || !pb_progress_text(m->fd, module, buf, PB_MARK_TEXT))
        return NULL;
    return buf;
}
