"""All workers of a pool wait for a lock that main holds while it waits for them."""
# expect: hang
import threading
from concurrent.futures import ThreadPoolExecutor

lock = threading.Lock()


def work(i):
    with lock:  # here
        return i


with ThreadPoolExecutor(3) as pool, lock:
    print("stall", flush=True)
    print(list(pool.map(work, range(6))))  # here
