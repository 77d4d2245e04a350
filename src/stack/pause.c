#include "stack/pause.h"

#include "base/clock.h"

double pb_pause_capture(const struct pb_capture_opts *o, struct pb_work *work, size_t n,
                        const pid_t *tids, size_t ntids, struct pb_arena *a)
{
    struct pb_stop *stops = PB_NEW_N(a, struct pb_stop, ntids);
    struct pb_proc_wait *waits = PB_NEW_N(a, struct pb_proc_wait, n);
    struct pb_capture_buffers *buffers = PB_NEW_N(a, struct pb_capture_buffers, n);
    uint64_t since;
    double us;

    /* What each thread was doing can only be told before it is held. */
    for (size_t i = 0; i < n; i++) {
        pb_proc_wait(&waits[i], o->pid, work[i].tid);
        pb_capture_prepare(o, pb_work_tstates(&work[i]), a, &buffers[i]);
    }
    pb_priority_raise(&o->tracer->priority);
    since = pb_clock_ns();
    for (size_t i = 0; i < ntids; i++)
        pb_stop_request(&stops[i], o->tracer, tids[i]);
    for (size_t i = 0; i < ntids; i++)
        if (stops[i].seized)
            pb_stop_await(&stops[i], true);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < ntids; j++) {
            if (tids[j] != work[i].tid || !stops[j].stopped)
                continue;
            pb_capture_held(o, &stops[j], &buffers[i], a, &work[i].capture);
            work[i].capture.wait = waits[i];
            /* Also of one that slept: it may have woken up before it was held. */
            if (pb_py_just_begun(o->py, &work[i].capture.python))
                work[i].capture.torn = true;
            if (o->held && !work[i].capture.torn)
                o->held(o->held_ctx, &work[i].capture);
        }
    }
    for (size_t i = 0; i < ntids; i++)
        pb_stop_end(&stops[i]);
    us = (double)(pb_clock_ns() - since) / 1000.0;
    pb_priority_restore(&o->tracer->priority);
    return us;
}
