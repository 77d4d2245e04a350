"""Crashes in the way that the second argument names. usage: crashing.py LIBRARY WAY [THREADS]
Prints READY and waits for a line of input, so that somebody can get ready, unless GO is set."""
import ctypes
import faulthandler
import os
import signal
import sys
import threading
import time

library = ctypes.PyDLL(sys.argv[1])
way = sys.argv[2]
dataset = {"name": "shards", "count": 3}


def call(name):
    getattr(library, "crash_" + name)()  # LINE: call


def deep(n):
    batch = [n, n + 1]
    if n:
        deep(n - 1)
    else:
        call(way)
    return batch


def in_python_thread():
    thread = threading.Thread(target=call, args=("overflow",), name="worker")
    thread.start()
    thread.join()


def in_fork():
    pid = os.fork()
    if pid == 0:
        call("segv")
    code = os.waitpid(pid, 0)[1]
    print("CHILD", code)


def kill_self():
    os.kill(os.getpid(), signal.SIGSEGV)  # LINE: kill


def chain():
    """A handler of the program's own, put in place later."""
    faulthandler.enable()
    call("segv")


def raise_error():
    rate = 0.5
    values = list(range(1000))
    raise ValueError("bad rate %s of %d" % (rate, len(values)))  # LINE: raise


def raise_in_thread():
    thread = threading.Thread(target=raise_error, name="loader")
    thread.start()
    thread.join()


def own_hook():
    sys.excepthook = lambda kind, value, trace: sys.stderr.write("mine: %s\n" % value)
    raise_error()


def mended():
    print("MENDED", library.crash_mended())


WAYS = {"python_thread": in_python_thread, "fork": in_fork, "kill": kill_self, "chain": chain,
        "raise": raise_error, "raise_in_thread": raise_in_thread, "own_hook": own_hook,
        "mended": mended, "exit": lambda: sys.exit(7)}


def main():
    for i in range(int(sys.argv[3]) if len(sys.argv) > 3 else 0):
        threading.Thread(target=time.sleep, args=(1000,), name="idle-%d" % i, daemon=True).start()
    print("READY", os.getpid(), flush=True)
    if not os.environ.get("GO"):
        sys.stdin.readline()
    if way in WAYS:
        WAYS[way]()
    else:
        deep(3)


main()
