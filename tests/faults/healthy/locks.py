"""Threads that fight for a lock."""
# expect: healthy
import threading
import time

lock = threading.Lock()
n = 0


def work():
    global n
    while True:
        with lock:
            n += 1
            time.sleep(0.002)


for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
print("stall", flush=True)
while True:
    with lock:
        n += 1
    time.sleep(0.01)
