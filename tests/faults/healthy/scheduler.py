"""Main joins worker threads which wait for jobs on a queue; a timer thread feeds them."""
# expect: healthy
import queue
import threading
import time

q = queue.Queue()


def worker():
    while True:
        q.get()


def timer():
    while True:
        time.sleep(25)
        q.put(1)


ts = [threading.Thread(target=f) for f in (worker, worker, timer)]
for t in ts:
    t.start()
print("stall", flush=True)
for t in ts:
    t.join()
