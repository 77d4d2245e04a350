/*
 * script.h - a Python script that loads the library, and its answer.
 *
 * Owns: the file, in the target's own root, until pb_script_destroy. The
 * script deletes it as well, should the tool be gone by then.
 * Threads: one.
 * Fails: with a reason when no folder of the target can be written to.
 * Not here: how the interpreter gets to run it (pep768.h).
 *
 * The target's folders are a stranger's: entered step by step without following a link, and
 * with the rights of the target's user, so that nothing happens there that it could not do.
 *
 * One file both ways: the script says that it has begun, and then its result,
 * by writing over its own first bytes, which the tool keeps open.
 */
#ifndef PB_INJECT_SCRIPT_H
#define PB_INJECT_SCRIPT_H

#include "inject/internal.h"

struct pb_script {
    int fd;
    int folder;     /* descriptor of the folder that the file is in */
    uid_t uid;      /* owner of the target, whose rights are used in its folders */
    gid_t gid;
    char path[128]; /* path in the target's view */
    char answer[512];
};

/* path_max: bytes that the target has for the path. */
int pb_script_create(struct pb_script *s, struct pb_injection *in, size_t path_max,
                     struct pb_err *err);
/* Has it started; has it ended, with its words in answer? */
bool pb_script_begun(struct pb_script *s);
bool pb_script_answer(struct pb_script *s);
int pb_script_result(const struct pb_script *s, int *ret_result, struct pb_err *err);
void pb_script_destroy(struct pb_script *s);

#endif
