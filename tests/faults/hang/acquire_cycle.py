"""Plain locks, taken by acquire()."""
# expect: hang
import threading
import time

left = threading.Lock()
right = threading.Lock()


def feed():
    left.acquire()
    time.sleep(0.3)
    right.acquire()  # here
    right.release()
    left.release()


def drain():
    right.acquire()
    time.sleep(0.3)
    left.acquire()  # here
    left.release()
    right.release()


workers = [threading.Thread(target=f) for f in (feed, drain)]
for w in workers:
    w.start()
print("stall", flush=True)
for w in workers:
    w.join()
