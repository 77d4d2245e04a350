"""Waits for what a child writes, which has a secret on its command line."""
import os
import subprocess

child = subprocess.Popen(["sh", "-c", "sleep 600 >&-; true", "--password", "on-the-line"],
                         stdout=subprocess.PIPE)
print("ready", os.getpid(), flush=True)
child.stdout.read()
