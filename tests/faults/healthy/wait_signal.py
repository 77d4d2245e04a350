"""A daemon that waits for a signal by signal.pause()."""
# expect: healthy
import signal

signal.signal(signal.SIGUSR1, lambda *_: None)
print("stall", flush=True)
while True:
    signal.pause()
