"""A child is forked while a thread of the parent has a lock."""
# expect: hang
import os
import threading
import time

lock = threading.Lock()


def log():
    while True:
        with lock:
            time.sleep(1.5)


threading.Thread(target=log, daemon=True).start()
time.sleep(0.3)
pid = os.fork()
if pid == 0:
    with lock:  # here
        os._exit(0)
print("stall", flush=True)
os.waitpid(pid, 0)
