"""The main thread reads a pipe that a worker thread of its own writes when its job is done."""
# expect: healthy
import os
import threading
import time

r, w = os.pipe()


def job():
    for i in range(1000):
        time.sleep(0.5)
    os.write(w, b"x")


threading.Thread(target=job, daemon=True).start()
print("stall", flush=True)
os.read(r, 1)
