"""A program that waits for a signal."""
# expect: healthy
import signal

print("stall", flush=True)
signal.pause()
