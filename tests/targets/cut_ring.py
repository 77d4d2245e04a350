"""A hostile user: cuts a ring of its own off and puts it back, without end."""
import os
import sys

path = sys.argv[1]
with open(path, "rb") as file:
    data = file.read()
fd = os.open(path, os.O_RDWR)
print("ready", os.getpid(), flush=True)
while True:
    os.ftruncate(fd, 4096)
    os.ftruncate(fd, len(data))
    os.pwrite(fd, data, 0)
