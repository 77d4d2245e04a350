"""A pool of one thread whose job waits for another job of the same pool."""
# expect: hang
from concurrent.futures import ThreadPoolExecutor

pool = ThreadPoolExecutor(max_workers=1)


def leaf():
    return 1


def outer():
    return pool.submit(leaf).result()  # here


print("stall", flush=True)
pool.submit(outer).result()
