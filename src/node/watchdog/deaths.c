#include "node/watchdog/deaths.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/stat.h>

#include "host/os/filemap.h"
#include "node/watchdog/journal.h"
#include "store/reader.h"

static const int deadly[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
enum { NDEADLY = sizeof deadly / sizeof *deadly };

/* A signal handler gets no argument: what it needs to know is here, and nothing else is. */
static struct {
    struct pb_journal *journal;
    struct sigaction before[NDEADLY]; /* a sanitizer has handlers of its own */
} on_death;

/* Notes what this thread is at, and lets happen what would have happened. */
static void note(int sig, siginfo_t *info, void *context)
{
    struct pb_ring_identity ring = {0};
    const struct pb_reader *r;
    struct stat st;
    int e = errno;

    (void)context;
    if (sig == SIGBUS && info->si_code > 0 &&
        (pb_reader_mend(info->si_addr) || pb_filemap_mend(info->si_addr)))
        return;
    r = pb_reader_guard(NULL);
    if (r && fstat(r->fd, &st) == 0)
        ring = (struct pb_ring_identity){st.st_dev, st.st_ino, r->created_ns};
    if (on_death.journal)
        pb_journal_dying(on_death.journal, ring.inode ? &ring : NULL);
    for (int i = 0; i < NDEADLY; i++)
        if (deadly[i] == sig)
            sigaction(sig, &on_death.before[i], NULL);
    raise(sig); /* which waits until the handler has returned */
    errno = e;
}

void pb_deaths_watch(struct pb_journal *j)
{
    struct sigaction act = {.sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    on_death.journal = j;
    for (int i = 0; i < NDEADLY; i++)
        sigaction(deadly[i], &act, &on_death.before[i]);
}
