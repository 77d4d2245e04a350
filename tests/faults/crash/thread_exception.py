"""An uncaught exception in a worker thread ends the work; then the process ends."""
# expect: crash
# probes: yes
import sys
import threading


def work(rows):
    total = 0
    for r in rows:
        total += int(r)  # here
    return total


print("stall", flush=True)
sys.stdin.read(1)
t = threading.Thread(target=work, args=(["1", "x"],))
t.start()
t.join()
