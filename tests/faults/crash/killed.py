"""Somebody's SIGKILL: who did it is not known, and not said."""
# expect: crash
# class: SIGKILL
# line: none
# probes: yes
import os
import signal
import time

print("stall", flush=True)
os.read(0, 1)
time.sleep(4)
os.kill(os.getpid(), signal.SIGKILL)
