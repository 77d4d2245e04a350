"""An allocation-heavy loop. PATH: a line "end, CPU seconds" for each round, for ever.
PATH tracemalloc|memray: so many rounds without and with it in turn, then the end."""
import os
import sys
import time

ROUNDS = 20


class Point:
    __slots__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y


def work():
    kept = [None] * 1000
    for i in range(20000):
        kept[i % 1000] = (Point(i, str(i)), [i, i + 1], bytes(100))


def timed():
    began = time.thread_time()
    work()
    return time.thread_time() - began


def with_tracemalloc():
    import tracemalloc
    tracemalloc.start()
    took = timed()
    tracemalloc.stop()
    return took


def with_memray(path):
    import memray
    with memray.Tracker(path, trace_python_allocators=True):
        return timed()


def main(path, rival=None):
    print("ready", os.getpid(), flush=True)
    if not rival:
        with open(path, "w", 1) as out:
            while True:
                took = timed()
                out.write("%.6f %.9f\n" % (time.time(), took))
    with open(path, "w") as out:
        for i in range(ROUNDS):
            bare = timed()
            there = with_tracemalloc() if rival == "tracemalloc" \
                else with_memray("%s.%d.bin" % (path, i))
            out.write("%.9f %.9f\n" % (bare, there))


main(*sys.argv[1:])
