"""Two threads take two locks in opposite order."""
# expect: hang
import threading
import time

first, second = threading.Lock(), threading.Lock()


def one():
    with first:
        time.sleep(0.3)
        with second:  # here
            pass


def two():
    with second:
        time.sleep(0.3)
        with first:  # here
            pass


threads = [threading.Thread(target=one), threading.Thread(target=two)]
for t in threads:
    t.start()
print("stall", flush=True)
for t in threads:
    t.join()
