"""Popen.wait() while the child cannot write: its pipe is full."""
# expect: hang
import subprocess

print("stall", flush=True)


def convert():
    p = subprocess.Popen(["sh", "-c", "yes x | head -c 300000; true"], stdout=subprocess.PIPE)
    p.wait()  # here


convert()
