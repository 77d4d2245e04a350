"""A list in a module keeps every batch."""
# expect: leak
# wait: 25
import time

history = []


def step(i):
    data = bytearray(400_000)
    history.append(data)  # here
    return len(data)


print("stall", flush=True)
i = 0
while True:
    step(i)
    i += 1
    time.sleep(0.05)
