/*
 * marks.h - what a training process says of itself while it is sampled: step, phase, module.
 *
 * Owns: the descriptor of the file `progress` in the process's folder, once that is there.
 * Threads: one.
 * Fails: never; what is not known stays unknown.
 * Not here: the file (store/reader_progress.h).
 */
#ifndef PB_NODE_PROFILE_MARKS_H
#define PB_NODE_PROFILE_MARKS_H

#include "node/discover/discover.h"
#include "recording/fold.h"
#include "store/reader_progress.h"

enum { PB_MARK_TEXT = 256 };

struct pb_marks {
    char path[256]; /* path of the folder of the process */
    uid_t uid;      /* uid that must own the folder */
    bool inner;     /* whether the process has a pid namespace of its own */
    int fd;         /* descriptor of the progress file; -1: not there yet */
    uint64_t look_ns;
    bool known;
    struct pb_progress now;
};

void pb_marks_init(struct pb_marks *m, const struct pb_store *s);
void pb_marks_finish(struct pb_marks *m);

/* As of now; before the samples of a tick. */
void pb_marks_read(struct pb_marks *m, uint64_t now_ns);
/* What one thread of the process is at. */
struct pb_fold_mark pb_marks_of(const struct pb_marks *m, pid_t tid);
/* Texts of the numbers in a mark; NULL: unknown. */
const char *pb_marks_phase(uint32_t phase);
const char *pb_marks_module(const struct pb_marks *m, uint32_t module, char buf[PB_MARK_TEXT]);

#endif
