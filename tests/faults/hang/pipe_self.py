"""A pipe whose only writer is the reader itself."""
# expect: hang
import os

r, w = os.pipe()


def load():
    return os.read(r, 10)  # here


print("stall", flush=True)
load()
