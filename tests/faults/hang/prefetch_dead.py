"""The prefetching thread died; the loop waits for its queue."""
# expect: hang
import queue
import threading

q = queue.Queue(4)


def prefetch():
    for i in range(5):
        if i == 3:
            raise SystemExit
        q.put(i)


def train():
    while True:
        q.get()  # here


threading.Thread(target=prefetch, daemon=True).start()
print("stall", flush=True)
train()
