"""A producer faster than its consumer, with a bounded queue."""
# expect: healthy
import queue
import threading
import time

q = queue.Queue(2)


def produce():
    i = 0
    while True:
        q.put(i)
        i += 1


threading.Thread(target=produce, daemon=True).start()
print("stall", flush=True)
while True:
    q.get()
    time.sleep(0.8)
