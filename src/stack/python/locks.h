/*
 * locks.h - which Python lock a thread waits for, and which its frames hold.
 *
 * Owns: nothing; lists go into the caller's arena.
 * Threads: one.
 * Fails: what cannot be told is not told: a lock whose object is not to be found has no name, one
 * that was taken by a bare acquire() has no holder here.
 * Not here: who waits for whom (node/waits).
 *
 * A thread that waits for a lock sleeps on a futex, whose address the kernel tells. To 3.13 that
 * is the semaphore which the lock object points to; from 3.14 on it is a record on the thread's own
 * stack, and the word in front of it is the address of the mutex inside the lock object. So an
 * object that a frame refers to is either that very lock or it is not. Holders: `with` keeps the
 * lock's __exit__ on the frame's stack for as long as its block runs; an RLock names its owner.
 */
#ifndef PB_STACK_PYTHON_LOCKS_H
#define PB_STACK_PYTHON_LOCKS_H

#include "stack/python/code.h"

struct pb_py_lock {
    uint64_t object; /* the lock; 0: it was not found */
    uint64_t key;    /* what the wait is on: semaphore or mutex; the same for all who wait for it */
    bool reentrant;
    uint64_t owner;   /* RLock: pthread_t of its owner; 0: not known */
    const char *name; /* variable that leads to it, "self._lock"; NULL: on the stack only */
};

/* The lock behind a futex that the thread of these frames sleeps on. False: none was found. */
bool pb_py_lock_waited(struct pb_py_codes *c, const struct pb_py_raw_stack *s,
                       struct pb_py_code *const *codes, uint64_t futex, struct pb_arena *a,
                       struct pb_py_lock *ret);
/* Locks that a `with` of these frames holds. */
size_t pb_py_locks_held(struct pb_py_codes *c, const struct pb_py_raw_stack *s, struct pb_arena *a,
                        uint64_t **ret);
/* join() of a thread, or an import, in these frames: pthread_t of whom it waits for; 0: none. */
uint64_t pb_py_thread_joined(struct pb_py_codes *c, const struct pb_py_raw_stack *s,
                             struct pb_py_code *const *codes, struct pb_arena *a);

#endif
