"""A signal handler takes the lock that the interrupted code holds."""
# expect: hang
import os
import signal
import threading

lock = threading.Lock()


def on_usr1(*_):
    with lock:  # here
        pass


signal.signal(signal.SIGUSR1, on_usr1)


def save():
    with lock:
        print("stall", flush=True)
        os.kill(os.getpid(), signal.SIGUSR1)
        for _ in range(1000):
            pass


save()
