"""A table of the original tool's own kind inside this process: N rows, then it waits."""
import os
import sys
import time

import probing

table = probing.ExternalTable("bench", ["name", "value"], discard_threshold=1 << 33)
for number in range(int(sys.argv[1])):
    table.append(["op%d" % (number % 100), number * 0.5])
print("ready", os.getpid())
sys.stdout.flush()
time.sleep(600)
