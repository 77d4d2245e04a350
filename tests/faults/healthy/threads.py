"""Workers of a thread pool; main waits for them."""
# expect: healthy
import threading
import time


def work():
    while True:
        sum(range(20000))
        time.sleep(0.01)


threads = [threading.Thread(target=work) for _ in range(4)]
for t in threads:
    t.start()
print("stall", flush=True)
for t in threads:
    t.join()
