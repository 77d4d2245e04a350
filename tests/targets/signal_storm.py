"""A thousand SIGALRM a second, and a SIGCHLD now and then; every one must be seen."""
import os
import signal
import time

COUNT = {signal.SIGALRM: 0, signal.SIGCHLD: 0}


def seen(number, frame):
    COUNT[number] += 1


def main():
    signal.signal(signal.SIGALRM, seen)
    signal.signal(signal.SIGCHLD, seen)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    os.write(1, ("ready %d\n" % os.getpid()).encode())
    while True:
        before = COUNT[signal.SIGALRM]
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        time.sleep(0.02)
        if COUNT[signal.SIGALRM] == before or not COUNT[signal.SIGCHLD]:
            os.write(2, b"signals were lost\n")
            os._exit(9)


main()
