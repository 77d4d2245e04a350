"""Semaphore of 1 taken twice on a path with an exception in between."""
# expect: hang
import threading

sem = threading.BoundedSemaphore(1)


def use(fail):
    sem.acquire()  # here
    if fail:
        raise ValueError
    sem.release()


try:
    use(True)
except ValueError:
    pass
print("stall", flush=True)
use(False)
