"""An exception skips the release; the thread that had the lock is gone."""
# expect: hang
import threading
import time

lock = threading.Lock()


def worker():
    lock.acquire()
    try:
        raise ValueError("lost")
    except ValueError:
        return
    lock.release()


t = threading.Thread(target=worker)
t.start()
t.join()
print("stall", flush=True)
lock.acquire()  # here
