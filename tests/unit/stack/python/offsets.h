/*
 * offsets.h - for tests: _Py_DebugOffsets of real builds, as measured.
 *
 * Owns: nothing. Threads: any. Fails: never.
 * Not here: 3.13t, of which no build was at hand; it is 3.13 with the longer
 * object head.
 */
#ifndef PB_TEST_OFFSETS_H
#define PB_TEST_OFFSETS_H

#include <stdint.h>
#include <string.h>

#define OFFSETS_313_SIZE 584
#define OFFSETS_314_SIZE 760
#define OFFSETS_315_SIZE 840

/* From position 24 on, eight bytes each. */
static const uint64_t offsets_313[] = {
    283320, 608,  632,                                                          /* runtime */
    194968, 7272, 7264, 7344, 7400, 7656, 7640, 7648, 16,  7752, 0, 7768, 7760, /* interp */
    304,    0,    8,    16,   72,   152,  160,  232,  32,                       /* thread */
    80,     8,    0,    56,   72,   70,                                         /* frame */
    208,    112,  120,  128,  136,  68,   52,   96,   104, 200,                 /* code */
    16,     8,                                                                  /* object */
    416,    24,   88,   168,                                                    /* type */
    32,     24,   16,                                                           /* tuple */
    40,     24,   16,                                                           /* list */
    48,     32,   40,                                                           /* dict */
    24,     16,                                                                 /* float */
    32,     16,   24,                                                           /* int */
    40,     16,   32,                                                           /* bytes */
    64,     32,   16,   40,                                                     /* str */
    240,    200,                                                                /* gc */
};

static const uint64_t offsets_314[] = {
    316536, 784,  808, /* runtime */
    225808, 7280, 7272, 7344, 7360, 7408, 7664, 7648, 7656, 16,  7760, 0,  7776,
    7768,   7968, 0,    824,  0,    8,    16,   72,   152,  160, 232,  32, /* thread */
    88,     8,    0,    56,   80,   74,   64,   0,                         /* frame */
    216,    112,  120,  128,  136,  68,   52,   96,   104,  208, 0,        /* code */
    16,     8,                                                             /* object */
    416,    24,   88,   168,                                               /* type */
    40,     32,   16,                                                      /* tuple */
    40,     24,   16,                                                      /* list */
    200,    24,   40,   32,                                                /* set */
    48,     32,   40,                                                      /* dict */
    24,     16,                                                            /* float */
    32,     16,   24,                                                      /* int */
    40,     16,   32,                                                      /* bytes */
    64,     32,   16,   40,                                                /* str */
    240,    192,                                                           /* gc */
    160,    24,   72,   67,                                                /* generator */
    0,      8,                                                             /* list node */
    24,     304,  8052, 0,    4,    512,                                   /* debugger */
};

static const uint64_t offsets_314t[] = {
    362304, 784,  808, /* runtime */
    246656, 7280, 7272,  7344, 7360, 7408, 7712, 7696, 7704, 16,  7808, 0,  7832,
    7824,   8024, 17628, 824,  0,    8,    16,   72,   152,  160, 232,  32, /* thread */
    88,     8,    0,     56,   80,   78,   64,   72,                        /* frame */
    240,    128,  136,   144,  152,  84,   68,   112,  120,  232, 224,      /* code */
    32,     24,                                                             /* object */
    432,    40,   104,   184,                                               /* type */
    56,     48,   32,                                                       /* tuple */
    56,     40,   32,                                                       /* list */
    216,    40,   56,    48,                                                /* set */
    64,     48,   56,                                                       /* dict */
    40,     32,                                                             /* float */
    48,     32,   40,                                                       /* int */
    56,     32,   48,                                                       /* bytes */
    80,     48,   32,    56,                                                /* str */
    288,    192,                                                            /* gc */
    176,    40,   88,    83,                                                /* generator */
    0,      8,                                                              /* list node */
    24,     304,  8108,  0,    4,    512,                                   /* debugger */
};

static const uint64_t offsets_315[] = {
    345720, 864,  888, /* runtime */
    226056, 7272, 7264, 7336, 7352, 7400, 7584, 7568, 7576, 16,  7720, 0,  7736, 7728, 7928, 0,
    856,    0,    8,    16,   72,   80,   88,   168,  176,  248, 32,   36, 40,   128,  280, 0,
    88,     8,    0,    56,   80,   74,   64,   0,                         /* frame */
    216,    112,  120,  128,  136,  68,   52,   96,   104,  208, 0,        /* code */
    16,     8,                                                             /* object */
    416,    24,   88,   168,                                               /* type */
    40,     32,   16,                                                      /* tuple */
    40,     24,   16,                                                      /* list */
    200,    24,   40,   32,                                                /* set */
    48,     32,   40,                                                      /* dict */
    24,     16,                                                            /* float */
    32,     16,   24,                                                      /* int */
    40,     16,   32,                                                      /* bytes */
    64,     32,   16,   40,                                                /* str */
    168,    112,  120,  1656, 104,                                         /* gc */
    160,    24,   72,   67,                                                /* generator */
    0,      8,                                                             /* list node */
    24,     336,  8012, 0,    4,    512,                                   /* debugger */
};

static inline void offsets_bytes(uint8_t *out, uint64_t version, uint64_t free_threaded,
                                 const uint64_t *words, size_t size)
{
    memcpy(out, "xdebugpy", 8);
    memcpy(out + 8, &version, 8);
    memcpy(out + 16, &free_threaded, 8);
    memcpy(out + 24, words, size);
}

static inline void offsets_313_bytes(uint8_t *out)
{
    offsets_bytes(out, 0x030d00f0, 0, offsets_313, sizeof offsets_313);
}

static inline void offsets_314_bytes(uint8_t *out)
{
    offsets_bytes(out, 0x030e00f0, 0, offsets_314, sizeof offsets_314);
}

static inline void offsets_314t_bytes(uint8_t *out)
{
    offsets_bytes(out, 0x030e00f0, 1, offsets_314t, sizeof offsets_314t);
}

static inline void offsets_315_bytes(uint8_t *out)
{
    offsets_bytes(out, 0x030f00a8, 0, offsets_315, sizeof offsets_315);
}

/* Every field of an object moves by 16, the fields of the GIL by 8. */
static inline void offsets_313t_bytes(uint8_t *out)
{
    uint64_t words[sizeof offsets_313 / 8];

    memcpy(words, offsets_313, sizeof words);
    for (size_t i = 31; i < sizeof words / 8 - 2; i++)
        words[i] += 16;
    words[14] += 8;
    words[15] += 8;
    offsets_bytes(out, 0x030d00f0, 1, words, sizeof words);
}

#endif
