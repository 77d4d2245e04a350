"""The same with attributes and RLocks, taken by acquire()."""
# expect: hang
import threading
import time


class Account:
    def __init__(self):
        self.lock = threading.RLock()


def move(a, b):
    a.lock.acquire()
    time.sleep(0.3)
    b.lock.acquire()  # here
    b.lock.release()
    a.lock.release()


x, y = Account(), Account()
t = threading.Thread(target=move, args=(x, y), daemon=True)
t.start()
print("stall", flush=True)
move(y, x)
