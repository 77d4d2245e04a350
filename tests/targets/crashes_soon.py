"""A process that ends by a signal, in C code called at one line, when its input says so."""
import ctypes
import os
import sys


def load():
    return ctypes.string_at(0)


print("ready", os.getpid(), flush=True)
if sys.stdin.readline().strip() == "kill":
    os.kill(os.getpid(), 9)
load()
