/*
 * block.h - the memory that the tool and the code it puts into a target share.
 *
 * Owns: nothing; a layout only, for C and for the assembler of arch/.
 * Threads: the stub writes first, then the new thread; the tool reads all the
 * while and writes only `go`, `ack` and the three texts, each at its time.
 * Fails: never. The tool trusts nothing it reads here.
 * Not here: who does what when (hijack.h, handover.c).
 *
 * The arena, one mapping made by the stub at an address fixed in advance:
 *
 *     block | saved vector registers | … stack of the stub, growing down
 *     0      SAVE                                                 size
 *
 * The head of the block travels on the victim's stack, below what the victim
 * may use, and is copied into the arena by the stub.
 */
#ifndef PB_INJECT_BLOCK_H
#define PB_INJECT_BLOCK_H

/* Where the code stands; the first three are on the way, the rest are ends. */
#define PB_ST_STUB 1      /* the arena is there */
#define PB_ST_THREAD 2    /* the new thread runs */
#define PB_ST_READY 3     /* it waits for the library */
#define PB_ST_DONE 4      /* the entry function returned `result` */
#define PB_ST_NO_THREAD 5 /* pthread_create failed with `error` */
#define PB_ST_NO_FILE 6   /* memfd_create failed with -error */
#define PB_ST_NO_LIBRARY 7 /* dlopen or dlsym failed; `why` says how */
#define PB_ST_GAVE_UP 8   /* the tool did not deliver in time */

/* What a caught signal does to the system call that the victim sleeps in. */
#define PB_WAKE_NEVER 0   /* nothing: it runs, or the call always starts again */
#define PB_WAKE_ALWAYS 1  /* EINTR */
#define PB_WAKE_RESTART 2 /* EINTR, unless the handler was installed with SA_RESTART */

#define PB_B_STATE 0
#define PB_B_LEFT 4 /* the victim has left the arena for good */
#define PB_B_GO 8   /* the tool: library, path and options are complete */
#define PB_B_ACK 12 /* the tool: the result was read */
#define PB_B_FD 16
#define PB_B_ERROR 20
#define PB_B_RESULT 24
#define PB_B_WAKE 28
#define PB_B_ARENA 32
#define PB_B_SIZE 40
#define PB_B_SAVE 48
#define PB_B_STACK 56
#define PB_B_CREATE 64
#define PB_B_ATTR_INIT 72
#define PB_B_ATTR_STACK 80
#define PB_B_ATTR_DETACH 88
#define PB_B_ERRNO 96
#define PB_B_DLOPEN 104
#define PB_B_DLSYM 112
#define PB_B_DLERROR 120
#define PB_B_ENTRY 128
#define PB_B_DLMODE 136
#define PB_B_NAP 144
#define PB_B_BLOCKED 160
#define PB_B_NAME 168
#define PB_B_SYMBOL 184
#define PB_B_HEAD 232 /* bytes that travel on the victim's stack */
#define PB_B_PATH 232
#define PB_B_WHY 512
#define PB_B_OPTIONS 1024
#define PB_B_TOTAL 5248

#define PB_WHY_MAX 511
/* Naps of the new thread while it waits for the tool: about a second in all. */
#define PB_NAPS 6000
#define PB_NAP_NS 100000
/* A thread whose stack is refused as too small is asked for again with more, up to this. */
#define PB_STACK_FIRST 0x40000
#define PB_STACK_MAX 0x4000000

#ifndef __ASSEMBLER__

#include <stddef.h>
#include <stdint.h>

struct pb_block {
    uint32_t state, left, go, ack;
    int32_t fd, error, result;
    uint32_t wake;       /* PB_WAKE_* */
    uint64_t arena, size;
    uint64_t save;       /* where in the arena vector registers go */
    uint64_t stack_size; /* stack of the new thread */
    uint64_t pthread_create, attr_init, attr_setstacksize, attr_setdetachstate;
    uint64_t errno_location;
    uint64_t dlopen, dlsym, dlerror; /* dlerror may be 0 */
    uint64_t entry;      /* known beforehand when the library is there already; else 0 */
    uint64_t dlmode;
    uint64_t nap[2];     /* struct timespec */
    uint64_t blocked;    /* signals that wait until the victim is back */
    char name[16];       /* name of the memory file */
    char symbol[48];     /* the entry function */
    char path[280];      /* the library as dlopen shall find it */
    char why[512];
    char options[4224];
};

#define PB_B_CHECK(field, at)                                                                    \
    _Static_assert(offsetof(struct pb_block, field) == (at), "layout of the block")
PB_B_CHECK(left, PB_B_LEFT);
PB_B_CHECK(go, PB_B_GO);
PB_B_CHECK(ack, PB_B_ACK);
PB_B_CHECK(fd, PB_B_FD);
PB_B_CHECK(error, PB_B_ERROR);
PB_B_CHECK(result, PB_B_RESULT);
PB_B_CHECK(wake, PB_B_WAKE);
PB_B_CHECK(arena, PB_B_ARENA);
PB_B_CHECK(size, PB_B_SIZE);
PB_B_CHECK(save, PB_B_SAVE);
PB_B_CHECK(stack_size, PB_B_STACK);
PB_B_CHECK(pthread_create, PB_B_CREATE);
PB_B_CHECK(attr_init, PB_B_ATTR_INIT);
PB_B_CHECK(attr_setstacksize, PB_B_ATTR_STACK);
PB_B_CHECK(attr_setdetachstate, PB_B_ATTR_DETACH);
PB_B_CHECK(errno_location, PB_B_ERRNO);
PB_B_CHECK(dlopen, PB_B_DLOPEN);
PB_B_CHECK(dlsym, PB_B_DLSYM);
PB_B_CHECK(dlerror, PB_B_DLERROR);
PB_B_CHECK(entry, PB_B_ENTRY);
PB_B_CHECK(dlmode, PB_B_DLMODE);
PB_B_CHECK(nap, PB_B_NAP);
PB_B_CHECK(blocked, PB_B_BLOCKED);
PB_B_CHECK(name, PB_B_NAME);
PB_B_CHECK(symbol, PB_B_SYMBOL);
PB_B_CHECK(path, PB_B_PATH);
PB_B_CHECK(why, PB_B_WHY);
PB_B_CHECK(options, PB_B_OPTIONS);
_Static_assert(sizeof(struct pb_block) == PB_B_TOTAL, "size of the block");

#endif
#endif
