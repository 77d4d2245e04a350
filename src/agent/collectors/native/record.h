/*
 * record.h - torch's own events: callbacks at the beginning and end of what torch does.
 *
 * Owns: nothing; a callback belongs to whoever added it.
 * Threads: finding, adding and removing with the GIL. Torch calls callbacks from any thread,
 * without the GIL, and may call `end` long after the callback was removed: what a callback needs
 * must stay valid for ever.
 * Fails: false where this torch has no such functions.
 * Not here: what is done with an event (comm/, torch/backward/grad.h, torch/profiler/count.h).
 *
 * The functions are C++ of libtorch, called by their mangled names. That they do what they should
 * is for each user to test with an event of its own before it relies on them.
 */
#ifndef PB_AGENT_COLLECTORS_NATIVE_RECORD_H
#define PB_AGENT_COLLECTORS_NATIVE_RECORD_H

#include <stdbool.h>
#include <stdint.h>

/* at::RecordScope: what kind of event it is. */
enum pb_record_scope { PB_RECORD_FUNCTION = 0, PB_RECORD_BACKWARD = 1, PB_RECORD_USER = 7 };

/* at::RecordFunctionCallback, the same from torch 1.13 to 2.13. */
struct pb_record_callback {
    void *(*start)(void **ret, const void *record); /* made with PB_HIDDEN_RETURN */
    void (*end)(const void *record, void *context);
    double probability;
    uint8_t scopes[10], needs[3];
};

struct pb_record {
    bool searched;
    uint64_t (*add)(struct pb_record_callback); /* number of the callback, for remove */
    void (*remove)(uint64_t);
    const char *(*name)(const void *record);
};

/* Finds the functions, once; false when one of them is missing. */
bool pb_record_find(struct pb_record *r);
/* A function of libtorch by its mangled name, or NULL. */
void *pb_record_symbol(const char *mangled);

#endif
