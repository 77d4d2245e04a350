"""A helper process was stopped; main reads its answer."""
# expect: hang
import os
import signal
import subprocess

p = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
os.kill(p.pid, signal.SIGSTOP)


def ask():
    p.stdin.write(b"hello\n")
    p.stdin.flush()
    return p.stdout.readline()  # here


print("stall", flush=True)
ask()
