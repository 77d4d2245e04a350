"""Sorts large lists: a C function that keeps the GIL for seconds."""
# expect: healthy
import random

data = [random.random() for _ in range(1_000_000)]
print("stall", flush=True)
while True:
    copy = data * 2
    copy.sort(key=lambda x: -x)
