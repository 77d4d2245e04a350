"""A million objects and what the process counts itself, in a file; then it sits still."""
import gc
import os
import sys
import time


class Point:
    def __init__(self, number):
        self.number = number
        self.name = "n%d" % number


points = [Point(i) for i in range(200000)]
pairs = [[i, [i]] for i in range(100000)]
floats = [float(i) for i in range(200000)]
gc.collect()
began = time.perf_counter()
objects, count, size = gc.get_objects(), 0, 0
for one in objects:
    if one is not objects and type(one) in (Point, list):
        count, size = count + 1, size + sys.getsizeof(one)
took = time.perf_counter() - began
del objects, one
gc.collect()
with open(sys.argv[1], "w") as file:
    file.write("%d %d %f" % (count, size, took))
print("ready", os.getpid(), flush=True)
time.sleep(100000)
