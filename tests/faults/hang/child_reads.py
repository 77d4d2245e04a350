"""A command that answers nothing, read by communicate()."""
# expect: hang
import subprocess


def ask():
    p = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    p.stdin.write(b"hello")  # no flush, no close
    return p.stdout.read()  # here


print("stall", flush=True)
ask()
