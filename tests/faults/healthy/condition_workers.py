"""Workers that wait for a hand-made condition; the main thread sleeps in a loop."""
# expect: healthy
import threading
import time

cond, items = threading.Condition(), []


def work():
    while True:
        with cond:
            while not items:
                cond.wait()
            items.pop()


for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
print("stall", flush=True)
while True:
    time.sleep(1)
