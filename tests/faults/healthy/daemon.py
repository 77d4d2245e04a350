"""Main waits for a thread that looks for work once in a while."""
# expect: healthy
import threading
import time


def poll():
    while True:
        time.sleep(60)


t = threading.Thread(target=poll)
t.start()
print("stall", flush=True)
t.join()
