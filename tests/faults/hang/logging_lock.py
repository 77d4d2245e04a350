"""A handler that logs while the handler's lock is held elsewhere, which waits for us."""
# expect: hang
import logging
import threading

log = logging.getLogger("x")
h = logging.StreamHandler()
log.addHandler(h)
go = threading.Event()
done = threading.Event()


def flusher():
    with h.lock:
        go.set()
        done.wait()  # here


t = threading.Thread(target=flusher)
t.start()
go.wait()


def report():
    log.error("epoch done")  # here
    done.set()


print("stall", flush=True)
report()
