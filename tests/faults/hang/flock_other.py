"""A file lock that another process of ours took and keeps while it waits for us."""
# expect: hang
import fcntl
import os
import subprocess
import sys
import tempfile

path = tempfile.mktemp()
CODE = """
import fcntl, sys
f = open(sys.argv[1], "w")
fcntl.flock(f, fcntl.LOCK_EX)
print("ok", flush=True)
sys.stdin.readline()
"""
child = subprocess.Popen([sys.executable, "-c", CODE, path], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE)
child.stdout.readline()


def update():
    with open(path, "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)  # here


print("stall", flush=True)
update()
os.unlink(path)
