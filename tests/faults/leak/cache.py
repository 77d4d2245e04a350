"""A cache without a bound."""
# expect: leak
# wait: 25
import time

cache = {}


def lookup(key):
    if key not in cache:
        cache[key] = [key] * 5000  # here
    return cache[key]


print("stall", flush=True)
n = 0
while True:
    for _ in range(20):
        lookup(n)
        n += 1
    time.sleep(0.05)
