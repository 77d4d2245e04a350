"""Main waits for an event that only a signal handler sets; a worker ticks."""
# expect: healthy
import signal
import threading

stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())


def tick():
    while not stop.wait(30):
        pass


threading.Thread(target=tick, daemon=True).start()
print("stall", flush=True)
stop.wait()
