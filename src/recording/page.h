/*
 * page.h - a recording as the JSON that the flame graph in a browser is drawn from.
 *
 * Owns: nothing; the text goes into the caller's buffer.
 * Threads: any.
 * Fails: never.
 * Not here: the drawing (web/src/flame), pages and files around it (formats/html.c, the node's
 * route /api/flame).
 *
 *     {title, info, threads: [name], frames: [[func, file, line, kind]], parent: [], frame: [],
 *      leaves: [node, thread, did, µs, …], slots: {n, ms, start}, slot: [], span: [],
 *      before: [node, thread, did, µs, …], more: {node: id}, source: {frame: text}}
 *
 * kind: 0 Python, 1 native, 2 a rest: so many callees that are too small to be told apart. did: bit
 * 0 running, 1 has the GIL, 2 waits for it. A leaf's time lies in slot[i] and the span[i] slots
 * behind it; span is left out where all are 0. before: what it is compared with. more: nodes with
 * rests below them, by which a page may ask again. What is empty is left out.
 */
#ifndef PB_RECORDING_PAGE_H
#define PB_RECORDING_PAGE_H

#include "host/text/buf.h"
#include "recording/recording.h"

struct pb_page_opts {
    size_t max_nodes;  /* the heaviest that are shown one by one; 0: all */
    uint64_t below_id; /* only what is below this stack; 0: everything */
    bool no_slots;     /* nobody will select a window of time */
};

/* False: there is no stack of that id. */
bool pb_page_json(const struct pb_recording *r, const struct pb_page_opts *o, struct pb_buf *out);

#endif
