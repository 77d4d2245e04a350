"""A semaphore that is not given back."""
# expect: hang
import threading

slots = threading.Semaphore(2)


def use():
    slots.acquire()  # here


print("stall", flush=True)
for i in range(3):
    use()
