"""A thread sleeps with the lock that main wants."""
# expect: hang
import threading
import time

table = threading.Lock()


def keeper():
    with table:
        time.sleep(3600)  # here


threading.Thread(target=keeper, daemon=True).start()
time.sleep(0.3)
print("stall", flush=True)
with table:
    print("never")
