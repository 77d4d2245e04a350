"""A file that is shortened while it is mapped."""
# expect: crash
# class: SIGBUS
# probes: yes
import mmap
import os
import tempfile


def checksum(data):
    return sum(data[i] for i in range(0, len(data), 4096))  # here


f = tempfile.TemporaryFile()
f.truncate(1 << 20)
shard = mmap.mmap(f.fileno(), 1 << 20)
print("stall", flush=True)
os.read(0, 1)
f.truncate(1 << 16)
checksum(shard)
