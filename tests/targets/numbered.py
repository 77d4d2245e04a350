"""Appends rows 0, 1, 2 … to a table of its own; how many it has written stands in a file."""
import mmap
import os
import random
import struct
import sys
import time

import probing

path, rate, rows = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
with open(path, "wb+") as file:
    file.write(bytes(16))
    file.flush()
    count = mmap.mmap(file.fileno(), 16)
# With its timestamp eight columns, of 49 bytes: what many tables look like.
numbers = probing.table("numbers", {"n": int, "word": str, "value": float, "noise": float,
                                    "even": bool, "step": int, "phase": str}, rows=rows)
words, phases = ["word %d" % i for i in range(7)], ["forward", "backward", "optimizer"]
print("ready", os.getpid(), flush=True)
n, began = 0, time.monotonic()
while True:
    stop = struct.unpack_from("q", count, 8)[0]  # set by the test: how far to go
    if stop and n >= stop:
        time.sleep(0.01)
        continue
    due = int((time.monotonic() - began) * rate)
    for _ in range(max(0, min(due - n, 1000))):
        numbers.append(n, words[n % 7], n * 0.5, random.random(), n % 2 == 0, n // 100,
                       phases[n % 3])
        n += 1
    struct.pack_into("q", count, 0, n)
    time.sleep(0.001)
