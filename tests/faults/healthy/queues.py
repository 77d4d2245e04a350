"""A producer and a consumer."""
# expect: healthy
import queue
import threading
import time

q = queue.Queue(4)


def produce():
    while True:
        time.sleep(0.3)
        q.put(1)


threading.Thread(target=produce, daemon=True).start()
print("stall", flush=True)
while True:
    q.get()
