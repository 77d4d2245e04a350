"""The process itself is stopped."""
# expect: hang
import os
import signal


def crunch():
    print("stall", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)  # here


crunch()
