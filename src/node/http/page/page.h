/*
 * page.h - the files of the page, compressed, inside the executable.
 *
 * Owns: nothing; they are constant.
 * Threads: any.
 * Fails: never; a build with -DWEB=OFF has none.
 * Not here: what is in them (web/), and how they get here (web/build.mjs).
 */
#ifndef PB_NODE_HTTP_PAGE_PAGE_H
#define PB_NODE_HTTP_PAGE_PAGE_H

#include <stddef.h>

struct pb_request;

/* As the generated assembly file lays it out. */
struct pb_page_file {
    const char *path; /* "/" or "/assets/<name>-<hash>.<ending>" */
    const char *type, *etag;
    const void *data; /* gzip */
    size_t len;
};

/* NULL when there is none of that name. */
const struct pb_page_file *pb_page_find(const char *path);
/* Answers with it, or with 304 when the browser has it already. */
void pb_page_reply(struct pb_request *rq, const struct pb_page_file *f);

#endif
