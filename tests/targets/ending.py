"""A finalizer that does not end, in a collection ("gc") or at the end of all ("exit")."""
import ctypes
import gc
import os
import sys
import threading
import time


class Slow:
    def __del__(self, write=os.write, pid=os.getpid(), hold=ctypes.PyDLL(None).sleep,
                sleep=time.sleep):
        write(1, ("ready %d\n" % pid).encode())
        if MODE == "gc":
            hold(100000)  # LINE:gc
        else:
            sleep(100000)  # LINE:exit


def collect():
    slow = Slow()
    slow.self = slow
    del slow
    gc.collect()  # LINE:collect


MODE = sys.argv[1]
if MODE == "gc":
    thread = threading.Thread(target=time.sleep, args=(100000,), name="other")
    thread.daemon = True
    thread.start()
    collect()
KEPT = Slow()
