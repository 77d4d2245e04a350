/*
 * embed.h - a file of the source tree, carried inside the executable or the agent.
 *
 * Owns: nothing; the bytes are read-only data with a zero behind them.
 * Threads: any.
 * Fails: when the file is missing the build does.
 * Not here: when to build again (pb_embeds() in src/CMakeLists.txt).
 */
#ifndef PB_BASE_EMBED_H
#define PB_BASE_EMBED_H

/* path: from the root of the source tree. The bytes are symbol[] up to symbol_end. */
#define PB_EMBED(symbol, path)                                                                     \
    __asm__(".pushsection .rodata\n" #symbol ":\n"                                                 \
            ".incbin \"" path "\"\n" #symbol "_end:\n"                                             \
            ".byte 0\n"                                                                            \
            ".popsection\n");                                                                      \
    extern const char symbol[] __attribute__((visibility("hidden")));                              \
    extern const char symbol##_end[] __attribute__((visibility("hidden")));

#endif
