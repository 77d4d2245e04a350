"""A named pipe that nobody opens for writing."""
# expect: hang
import os
import tempfile

path = os.path.join(tempfile.mkdtemp(), "data")
os.mkfifo(path)
print("stall", flush=True)
with open(path) as f:  # here
    f.read()
