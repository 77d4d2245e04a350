"""Objects whose number is known; more of them for each line on the standard input."""
import collections
import gc
import os
import sys
import threading
import time


class Node:
    def __init__(self, number):
        self.number = number
        self.child = None


class Slotted(object):
    __slots__ = ("a", "b")


class Holder:
    def __init__(self):
        self.table = {}
        self.few = set(range(50))


CACHE = {}
QUEUE = collections.deque()
holder = Holder()
holder.table["deep"] = [{i} for i in range(3000)]
growing = []
FEW = [object() for _ in range(40)]  # far from the largest


def count():
    """(count, bytes) of each class as the process itself tells: what the collector tracks."""
    gc.collect()
    objects, own = gc.get_objects(), {}
    for one in objects:
        if one is objects or one is own:
            continue
        entry = own.setdefault(type(one).__name__, [0, 0])
        entry[0] += 1
        entry[1] += sys.getsizeof(one)
    return own


def fill():
    for i in range(4000):
        CACHE["key %d" % i] = Node(i)
        QUEUE.append(Slotted())
    wide = [list(range(300)) for _ in range(40)]
    tall = set(range(5000))
    many = [(x for x in range(2)) for _ in range(500)]
    ordered = [collections.OrderedDict((i, i) for i in range(n % 9)) for n in range(600)]
    return wide, tall, many, ordered


def sleep():
    batch = [float(i) for i in range(7000)]
    while True:
        time.sleep(1000)
    return batch


def grow():
    """Nothing but this is made between two looks, apart from the reading itself."""
    growing.append([
        ["text %d" % i for i in range(10000)],
        [i + 100000 for i in range(20000)],
        [i / 3 for i in range(15000)],
        [b"%d" % i for i in range(5000)],
        ["long" * (300 + i % 50) for i in range(2000)],
        [bytes(3000 + i % 100) for i in range(1000)],
        [(i, str(i)) for i in range(3000)],
    ])


kept = fill()
threading.Thread(target=sleep, name="sleeper", daemon=True).start()
time.sleep(0.1)
own = count()
lines = ["%s %d %d" % (name, n, size) for name, (n, size) in own.items()]
del own
with open(sys.argv[1], "w") as file:
    file.write("\n".join(lines))
del lines, file
gc.collect()
os.write(1, ("ready %d\n" % os.getpid()).encode())
while os.read(0, 1):
    grow()
    os.write(1, b"grown\n")
