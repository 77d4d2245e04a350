"""
Ten functions in five threads that say themselves how long they take: loops in Python and C calls
that fight for the GIL, C calls without it, sleeps, a lock. usage: known_shares.py FILE; FILE has a
number for each of NAMES, the seconds spent in it, callees included; then the time of day.
"""
import mmap
import os
import struct
import sys
import threading
import time
import zlib

NAMES = ["parse", "merge", "order", "pack", "nap", "poll", "outer", "inner", "lock", "join"]
OWN = {"outer": "inner"}  # whose callee is among them
GATE = threading.Event()
BYTES = os.urandom(1 << 16)
NUMBERS = list(range(1 << 16))
TAKEN = threading.Lock()


def parse(end):
    while time.perf_counter() < end:
        pass
    return end


def merge(end):
    total = 0
    while time.perf_counter() < end:
        total += 1
    return total


def order(end):
    while time.perf_counter() < end:
        sum(NUMBERS)


def pack(end):
    while time.perf_counter() < end:
        zlib.compress(BYTES, 9)


def nap(end):
    time.sleep(max(0, end - time.perf_counter()))


def poll(end):
    GATE.wait(max(0, end - time.perf_counter()))


def outer(end):
    middle = (time.perf_counter() + end) / 2
    while time.perf_counter() < middle:
        pass
    timed("inner", end - middle)


def inner(end):
    time.sleep(max(0, end - time.perf_counter()))


def lock(end):
    TAKEN.acquire(timeout=max(0, end - time.perf_counter()))


def join(end):
    while time.perf_counter() < end:
        b"".join([BYTES, BYTES])


def timed(name, seconds):
    number = NAMES.index(name)
    begin = time.perf_counter()
    globals()[name](begin + seconds)
    SPENT[number] += time.perf_counter() - begin
    struct.pack_into("d", shared, 8 * number, SPENT[number])
    struct.pack_into("d", shared, 8 * len(NAMES), time.time())


def turns(*parts):
    while True:
        for name, seconds in parts:
            timed(name, seconds)


SPENT = [0.0] * len(NAMES)
with open(sys.argv[1], "r+b") as file:
    shared = mmap.mmap(file.fileno(), 8 * len(NAMES) + 8)
TAKEN.acquire()
for number, parts in enumerate(((("parse", 0.023), ("merge", 0.011)),
                                (("order", 0.013), ("pack", 0.019)),
                                (("nap", 0.017), ("poll", 0.031)), (("outer", 0.029),),
                                (("lock", 0.041), ("join", 0.007)))):
    thread = threading.Thread(target=turns, args=parts, name="part-%d" % number)
    thread.daemon = True
    thread.start()
os.write(1, ("ready %d\n" % os.getpid()).encode())
GATE.wait()
