#include "node/aside.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/alloc.h"
#include "store/reader.h"

#define FILE_NAME "rings-set-aside"
#define FILE_MAX (256 << 10)

static const int deadly[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
enum { NDEADLY = sizeof deadly / sizeof *deadly };

struct pb_aside {
    char *lines; /* "<device> <inode> <created> <signal>" */
    bool watching;
};

/* A signal handler gets no argument: what it needs to know is here, and nothing else is. */
static struct {
    volatile int fd;
    struct sigaction before[NDEADLY];
} on_death = {.fd = -1};

static char *put_number(char *at, uint64_t v)
{
    char digits[20];
    int n = 0;

    do
        digits[n++] = (char)('0' + v % 10);
    while ((v /= 10) && n < 20);
    while (n)
        *at++ = digits[--n];
    *at++ = ' ';
    return at;
}

/* Notes the ring that this thread reads, and lets happen what would have happened. */
static void note(int sig, siginfo_t *info, void *context)
{
    const struct pb_reader *r;
    char line[96], *at = line;
    struct stat st;
    int e = errno;

    (void)context;
    if (sig == SIGBUS && pb_reader_mend(info->si_addr))
        return;
    r = pb_reader_guard(NULL);
    if (r && on_death.fd >= 0 && fstat(r->fd, &st) == 0) {
        at = put_number(at, (uint64_t)st.st_dev);
        at = put_number(at, (uint64_t)st.st_ino);
        at = put_number(at, r->created_ns);
        at = put_number(at, (uint64_t)sig);
        at[-1] = '\n';
        if (write(on_death.fd, line, (size_t)(at - line)) < 0)
            e = errno;
    }
    for (int i = 0; i < NDEADLY; i++)
        if (deadly[i] == sig)
            sigaction(sig, &on_death.before[i], NULL);
    raise(sig); /* which waits until the handler has returned */
    errno = e;
}

static void watch(struct pb_aside *a, int fd)
{
    struct sigaction act = {.sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    if (fd < 0 || on_death.fd >= 0)
        return;
    on_death.fd = fd;
    a->watching = true;
    for (int i = 0; i < NDEADLY; i++)
        sigaction(deadly[i], &act, &on_death.before[i]);
}

struct pb_aside *pb_aside_open(const char *data_dir, bool watching)
{
    struct pb_aside *a = pb_alloc_resize(NULL, sizeof *a);
    char path[4096];
    ssize_t n;
    int fd;

    *a = (struct pb_aside){.lines = pb_alloc_resize(NULL, FILE_MAX)};
    snprintf(path, sizeof path, "%s/" FILE_NAME, data_dir);
    fd = open(path, (watching ? O_RDWR | O_CREAT | O_APPEND : O_RDONLY) | O_NOFOLLOW | O_CLOEXEC,
              0600);
    n = fd >= 0 ? pread(fd, a->lines, FILE_MAX - 1, 0) : 0;
    a->lines[n > 0 ? n : 0] = '\0';
    if (watching)
        watch(a, fd);
    if (fd >= 0 && !a->watching)
        close(fd);
    return a;
}

void pb_aside_close(struct pb_aside *a)
{
    if (!a)
        return;
    for (int i = 0; i < NDEADLY && a->watching; i++)
        sigaction(deadly[i], &on_death.before[i], NULL);
    if (a->watching) {
        close(on_death.fd);
        on_death.fd = -1;
    }
    free(a->lines);
    free(a);
}

bool pb_aside_has(const struct pb_aside *a, const struct pb_reader *r, char *why, size_t cap)
{
    struct stat st;

    if (!a || !a->lines[0] || fstat(r->fd, &st) < 0)
        return false;
    for (const char *line = a->lines; *line; line = strchr(line, '\n') + 1) {
        unsigned long long dev, ino, made;
        int sig;

        if (!strchr(line, '\n'))
            break;
        if (sscanf(line, "%llu %llu %llu %d", &dev, &ino, &made, &sig) != 4 ||
            dev != (unsigned long long)st.st_dev || ino != (unsigned long long)st.st_ino ||
            made != r->created_ns)
            continue;
        snprintf(why, cap, "set aside: signal %d (%s) ended a node that read it", sig,
                 strsignal(sig));
        return true;
    }
    return false;
}

bool pb_aside_watches(const struct pb_aside *a)
{
    return a && a->watching;
}
