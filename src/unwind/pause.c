#include "unwind/pause.h"

#include "base/clock.h"
#include "unwind/hurry.h"

double pb_pause_capture(const struct pb_capture_opts *o, struct pb_work *work, size_t n,
                        const pid_t *tids, size_t ntids, struct pb_arena *a)
{
    struct pb_stop *stops = PB_NEW_N(a, struct pb_stop, ntids);
    struct pb_proc_wait *waits = PB_NEW_N(a, struct pb_proc_wait, n);
    struct pb_capture_room *rooms = PB_NEW_N(a, struct pb_capture_room, n);
    struct pb_hurry hurry;
    uint64_t since;
    double us;

    /* What each thread was doing can only be told before it is held. */
    for (size_t i = 0; i < n; i++) {
        pb_proc_wait(&waits[i], o->pid, work[i].tid);
        pb_capture_prepare(o, pb_work_tstates(&work[i]), a, &rooms[i]);
    }
    pb_hurry_begin(&hurry);
    since = pb_clock_ns();
    for (size_t i = 0; i < ntids; i++)
        pb_stop_request(&stops[i], tids[i]);
    for (size_t i = 0; i < ntids; i++)
        if (stops[i].seized)
            pb_stop_await(&stops[i], true);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < ntids; j++) {
            if (tids[j] != work[i].tid || !stops[j].stopped)
                continue;
            pb_capture_held(o, &stops[j], &rooms[i], a, &work[i].capture);
            work[i].capture.wait = waits[i];
            /* Also of one that slept: it may have woken up before it was held. */
            if (pb_py_just_begun(o->py, &work[i].capture.python))
                work[i].capture.torn = true;
        }
    }
    for (size_t i = 0; i < ntids; i++)
        pb_stop_end(&stops[i]);
    us = (double)(pb_clock_ns() - since) / 1000.0;
    pb_hurry_end(&hurry);
    return us;
}
