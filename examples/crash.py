"""
A program that crashes, in the way that its argument names: segv, abort, overflow, exception.

    PROBING=1 PROBING_CRASH=1 python examples/crash.py segv
    probing crashes last

Or in a program that runs already: probing PID inject -c
"""
import ctypes
import os
import sys
import threading
import time


def load_shard(number):
    """C code that is handed an address where nothing is."""
    path = "shard-%04d.bin" % number
    return path, ctypes.string_at(0)


def parse(depth):
    """C code that calls back into Python, which calls C code, until the stack has no room left."""
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda n: parse(n + 1))
    return callback(depth)


def read_config(name):
    settings = {"rate": 0.5, "batch": 8}
    return settings[name]


WAYS = {
    "segv": lambda: load_shard(7),
    "abort": os.abort,
    "overflow": lambda: parse(0),
    "exception": lambda: read_config("layers"),
}


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in WAYS:
        sys.exit("usage: crash.py " + "|".join(WAYS))
    sys.setrecursionlimit(10 ** 9)
    threading.Thread(target=time.sleep, args=(3600,), name="heartbeat", daemon=True).start()
    for step in range(3):
        time.sleep(0.1)
    WAYS[sys.argv[1]]()


main()
