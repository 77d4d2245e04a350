"""A function takes a lock that its caller has."""
# expect: hang
import threading

guard = threading.Lock()


def inner():
    with guard:  # here
        return 1


def outer():
    with guard:
        return inner()


print("stall", flush=True)
outer()
