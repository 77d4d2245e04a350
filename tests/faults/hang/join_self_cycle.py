"""Main joins a thread that joins main's other thread that waits for main's lock."""
# expect: hang
import threading

lock = threading.Lock()


def saver():
    with lock:  # here
        pass


def joiner(t):
    t.join()


print("stall", flush=True)
with lock:
    a = threading.Thread(target=saver)
    a.start()
    b = threading.Thread(target=joiner, args=(a,))
    b.start()
    b.join()  # here
