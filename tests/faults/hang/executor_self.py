"""A task waits for a task of the same full pool."""
# expect: hang
from concurrent.futures import ThreadPoolExecutor

pool = ThreadPoolExecutor(1)


def inner():
    return 1


def outer():
    return pool.submit(inner).result()  # here


print("stall", flush=True)
pool.submit(outer).result()  # here
