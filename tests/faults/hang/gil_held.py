"""C code keeps the GIL while other threads want it."""
# expect: hang
import ctypes
import threading
import time

libc = ctypes.PyDLL(None)


def ticker():
    while True:
        time.sleep(0.05)


threading.Thread(target=ticker, daemon=True).start()


def native():
    libc.sleep(3600)  # here


time.sleep(0.3)
print("stall", flush=True)
native()
