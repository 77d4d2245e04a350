/*
 * aarch64: a system call interrupted by a stop.
 *
 * The kernel backs the program counter up before the stop, and the first
 * argument of a call that gave up with EINTR is lost by then: nothing can be
 * mended here. Such calls are left alone by not stopping blocked threads.
 */
#include "stack/stop/stop.h"

void pb_arch_restart_interrupted(pid_t tid)
{
    (void)tid;
}
