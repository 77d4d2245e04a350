"""An event that nobody sets."""
# expect: hang
import threading

ready = threading.Event()


def wait_ready():
    ready.wait()  # here


t = threading.Thread(target=wait_ready)
t.start()
print("stall", flush=True)
t.join()
