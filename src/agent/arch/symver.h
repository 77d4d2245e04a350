/*
 * symver.h - old names for what newer C libraries renamed.
 *
 * Owns: nothing. Threads: any. Fails: never.
 *
 * glibc 2.34 gave these functions a new version when it merged libpthread and
 * libdl. Asking for the old one lets the same file load into every glibc from
 * 2.17 on. Include it in each file that calls one of them.
 */
#ifndef PB_AGENT_ARCH_SYMVER_H
#define PB_AGENT_ARCH_SYMVER_H

#include <features.h>

#ifdef __GLIBC__
#if defined(__x86_64__)
#define PB_OLD_GLIBC "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define PB_OLD_GLIBC "GLIBC_2.17"
#endif

#ifdef PB_OLD_GLIBC
#define PB_SYMVER(name) __asm__(".symver " #name "," #name "@" PB_OLD_GLIBC)
PB_SYMVER(dlopen);
PB_SYMVER(dlsym);
PB_SYMVER(dladdr);
PB_SYMVER(pthread_create);
PB_SYMVER(pthread_attr_setstacksize);
PB_SYMVER(pthread_sigmask);
PB_SYMVER(pthread_mutex_trylock);
PB_SYMVER(pthread_key_create);
PB_SYMVER(pthread_getspecific);
PB_SYMVER(pthread_setspecific);
#endif
#endif

#endif
