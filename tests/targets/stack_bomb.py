"""A hostile user: its stacks are arranged to fill whoever looks at them.

lines    a hundred threads in a hundred functions each, all with the same large table of lines
source   a function whose file is a pipe: says so when somebody opens it
"""
import os
import sys
import threading
import time

THREADS, DEPTH = 100, 100
parked = threading.Barrier(THREADS + 1)


def call(functions):
    if functions:
        functions[-1](functions[:-1])
    else:
        parked.wait()
        time.sleep(600)


def with_large_tables():
    """Functions of their own, with one table of a megabyte that they share."""
    table = call.__code__.co_linetable + b"\x00" * 1000000
    return [type(call)(call.__code__.replace(co_linetable=table), globals()) for _ in range(DEPTH)]


def fill():
    sys.setrecursionlimit(10000)
    for _ in range(THREADS):
        threading.Thread(target=call, args=(with_large_tables(),), daemon=True).start()
    parked.wait()
    print("ready", os.getpid(), flush=True)
    time.sleep(600)


def tell(path):
    os.close(os.open(path, os.O_WRONLY))  # waits until somebody reads
    print("opened", flush=True)


def trap(path):
    os.mkfifo(path)
    threading.Thread(target=tell, args=(path,), daemon=True).start()
    code = compile("time.sleep(600)", path, "exec")
    print("ready", os.getpid(), flush=True)
    exec(code)


if sys.argv[1] == "lines":
    fill()
else:
    trap(sys.argv[2])
