"""Many files and threads, and more of both for a while at a time: none is lost."""
# expect: healthy
# wait: 28
import os
import threading
import time


def work():
    time.sleep(2)


kept = [open(os.devnull) for _ in range(500)]
for _ in range(20):
    threading.Thread(target=threading.Event().wait, args=(3600,), daemon=True).start()
print("stall", flush=True)
while True:
    some = [open(os.devnull) for _ in range(10)]
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
        time.sleep(0.4)
    for t in threads:
        t.join()
    del some
