"""
Watches its own clock. argv: path of a shared file, mode, number of idle threads.

The file holds 64-bit words: [0] round, set by the watcher; [1] longest gap of
this round in nanoseconds; [2] round that [1] belongs to.
Mode running: a loop that never rests; a gap is time between two of its turns.
Mode blocked: short sleeps; a gap is how much later than asked a sleep ended.
"""
import mmap
import os
import sys
import threading
import time

NAP = 0.0002


def running(words):
    clock = time.perf_counter_ns
    seen, worst, last = words[0], 0, clock()
    while True:
        now = clock()
        if now - last > worst:
            worst = words[1] = now - last
        last = now
        if words[0] != seen:
            seen = words[2] = words[0]
            worst = words[1] = 0
            last = clock()


def blocked(words):
    clock = time.perf_counter_ns
    seen, worst = words[0], 0
    while True:
        before = clock()
        time.sleep(NAP)
        late = clock() - before - int(NAP * 1e9)
        if late > worst:
            worst = words[1] = late
        if words[0] != seen:
            seen = words[2] = words[0]
            worst = words[1] = 0


def main():
    with open(sys.argv[1], "r+b") as file:
        words = memoryview(mmap.mmap(file.fileno(), 4096)).cast("Q")
    never = threading.Event()
    threading.stack_size(256 * 1024)
    for _ in range(int(sys.argv[3])):
        thread = threading.Thread(target=never.wait)
        thread.daemon = True
        thread.start()
    print("ready", os.getpid())
    sys.stdout.flush()
    {"running": running, "blocked": blocked}[sys.argv[2]](words)


main()
