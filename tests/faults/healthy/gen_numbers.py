"""A Monte Carlo estimate in pure Python."""
# expect: healthy
import random

hits = n = 0
print("stall", flush=True)
while True:
    x, y = random.random(), random.random()
    hits += x * x + y * y < 1
    n += 1
