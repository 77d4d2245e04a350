"""A lock on a file that another process has."""
# expect: hang
import fcntl
import subprocess
import sys
import tempfile

path = tempfile.mktemp()
CODE = """
import fcntl, sys, time
f = open(sys.argv[1], "w")
fcntl.flock(f, 2)
print(1, flush=True)
time.sleep(9999)
"""
p = subprocess.Popen([sys.executable, "-c", CODE, path], stdout=subprocess.PIPE)
p.stdout.readline()


def save():
    with open(path, "a") as f:
        fcntl.flock(f, fcntl.LOCK_EX)  # here


print("stall", flush=True)
save()
