"""C code that blocks with the GIL: ctypes.PyDLL's pause."""
# expect: hang
import ctypes
import threading
import time

lib = ctypes.PyDLL(None)


def beat():
    while True:
        time.sleep(0.01)


threading.Thread(target=beat, daemon=True).start()


print("stall", flush=True)
lib.sleep(100000)  # here
