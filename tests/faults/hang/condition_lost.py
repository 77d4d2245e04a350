"""notify() came before wait()."""
# expect: hang
import threading
import time

cond = threading.Condition()


def notify():
    with cond:
        cond.notify()


t = threading.Thread(target=notify)
t.start()
time.sleep(0.3)
print("stall", flush=True)
with cond:
    cond.wait()  # here
