/*
 * Threads that evaluate code take long to give back locks of CPython's, that of its list of
 * threads among them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <semaphore.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

int sem_post(sem_t *lock)
{
    int (*post)(sem_t *) = dlsym(RTLD_NEXT, "sem_post");
    char name[16] = "";

    if (prctl(PR_GET_NAME, name) == 0 && strcmp(name, "probing-eval") == 0)
        usleep(10000);
    return post(lock);
}
