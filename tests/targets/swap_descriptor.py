"""A hostile target: puts another file in the place of the one in memory that injection fills."""
import ctypes
import os
import sys
import threading

library, path = ctypes.CDLL(sys.argv[1]), sys.argv[2]
number = os.dup(0)  # the lowest free one but one, which is what the file will get
place = os.open(path, os.O_PATH)
os.close(number)
link = b"/proc/self/fd/%d" % number
threading.Thread(target=library.swap, args=(link, number, place), daemon=True).start()
print("ready", os.getpid(), flush=True)
threading.Event().wait()
