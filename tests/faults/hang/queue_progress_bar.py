"""The producer died; the consumer waits for an item under a progress bar with its monitor."""
# expect: hang
import queue
import threading

from tqdm import tqdm

q = queue.Queue(8)
threading.excepthook = lambda a: None


def produce():
    for i in range(20):
        q.put(i)
    raise OSError("shard is gone")


def consume(n):
    total = 0
    for _ in tqdm(range(n), mininterval=0.1):
        total += q.get()  # here
    return total


threading.Thread(target=produce, daemon=True).start()
threading.Timer(0.5, lambda: print("stall", flush=True)).start()
consume(1000)
