"""C code that gives up, in a thread."""
# expect: crash
# class: SIGABRT
# probes: yes
import ctypes
import os
import threading


def finish():
    ctypes.CDLL(None).abort()  # here


print("stall", flush=True)
os.read(0, 1)
t = threading.Thread(target=finish)
t.start()
t.join()
