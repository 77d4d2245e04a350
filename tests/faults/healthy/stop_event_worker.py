"""A daemon: main waits for an event that a signal handler sets; a worker waits for a queue."""
# expect: healthy
import queue
import signal
import threading

stop, q = threading.Event(), queue.Queue()
signal.signal(signal.SIGTERM, lambda *_: stop.set())


def work():
    while True:
        q.get()


threading.Thread(target=work, daemon=True).start()
print("stall", flush=True)
stop.wait()
