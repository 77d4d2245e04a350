"""A hostile user: everything that it can name drives a terminal, or ends a script of a page.

Usage: loud.py FOLDER, in which it makes a file that it waits for the lock of.
"""
import ctypes
import fcntl
import os
import sys
import threading
import time

BAD = "\x1b]0;PWNED\x07\x9b1m\u202e\r</script><script>PWNED"
FILE = BAD.replace("/", "\\")
libc = ctypes.CDLL(None)
libc.prctl(15, b"\x1b]0;PWN\x07", 0, 0, 0)  # PR_SET_NAME


def rename(code, name):
    """The same code under another name, in a file of another name."""
    if hasattr(code, "replace"):
        wanted = {"co_name": name, "co_filename": "/" + FILE}
        if hasattr(code, "co_qualname"):
            wanted["co_qualname"] = name
        return code.replace(**wanted)
    return code


def plain(first, *more):
    kept = {BAD: first, "text": BAD}
    first(*more)
    return kept


plain.__code__ = rename(plain.__code__, BAD)
Loud = type(BAD, (), {"__slots__": ("a",)})
globals()[BAD] = [Loud() for _ in range(20000)]

path = os.path.join(sys.argv[1], FILE)
held = open(path, "w")
fcntl.flock(held, fcntl.LOCK_EX)


def wait_for_file():
    with open(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)


def wait_for_each_other(mine, other):
    with mine:
        time.sleep(0.2)
        with other:
            pass


def burn():
    while True:
        sum(range(1000))


one, two = threading.Lock(), threading.Lock()
for job in ((wait_for_file,), (wait_for_each_other, one, two), (wait_for_each_other, two, one),
            (burn,)):
    threading.Thread(target=plain, args=job, name=BAD, daemon=True).start()
time.sleep(0.5)
print("ready", os.getpid(), flush=True)
while True:
    plain(lambda: [bytearray(100000) for _ in range(20)])
    time.sleep(0.01)
