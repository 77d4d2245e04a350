"""A pool of connections: error paths do not give them back; a monitor thread polls every 2 s."""
# expect: hang
import threading


class Pool:
    def __init__(self, n):
        self.slots = threading.BoundedSemaphore(n)

    def acquire(self):
        self.slots.acquire()  # here
        return object()

    def release(self, c):
        self.slots.release()


def query(pool, i):
    c = pool.acquire()
    if i % 3 == 0:
        raise KeyError(i)
    pool.release(c)
    return i


def load_features(pool, n):
    found = 0
    for i in range(n):
        try:
            found += query(pool, i)
        except KeyError:
            pass
    return found


def monitor(stop):
    while not stop.wait(2.0):
        pass


stop = threading.Event()
threading.Thread(target=monitor, args=(stop,), daemon=True).start()
print("stall", flush=True)
load_features(Pool(4), 100)
stop.set()
