/*
 * hidden_return.h - being called by C++ for an object that is returned through a pointer.
 *
 * Owns: nothing; a macro. Threads: any. Fails: never.
 * Not here: what is returned.
 *
 * A unique_ptr is one word, but is not returned in a register: the caller passes the place for it,
 * as a first argument or in a register of its own, and C has no word for that.
 *
 * PB_HIDDEN_RETURN(name, implementation): defines a static function `name` that passes on to
 * `void implementation(const void *argument, void **ret)`.
 */
#ifndef PB_AGENT_ARCH_HIDDEN_RETURN_H
#define PB_AGENT_ARCH_HIDDEN_RETURN_H

#if defined(__x86_64__)
#define PB_HIDDEN_RETURN(name, implementation)                                                    \
    static void *name(void **ret, const void *argument)                                           \
    {                                                                                             \
        implementation(argument, ret);                                                            \
        return ret;                                                                               \
    }
#elif defined(__aarch64__)
/* The place is in x8; it becomes the second argument. */
#define PB_HIDDEN_RETURN(name, implementation)                                                    \
    void implementation(const void *argument, void **ret) __attribute__((used));                  \
    void *name(void **ret, const void *argument) __attribute__((visibility("hidden")));           \
    __asm__(".text\n.balign 4\n.global " #name "\n.hidden " #name "\n.type " #name                \
            ", %function\n" #name ":\n\tmov x1, x8\n\tb " #implementation "\n");
#endif

#endif
