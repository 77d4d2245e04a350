"""A hostile user: its memory is arranged to keep whoever looks at its objects busy, or to fill him.

lists   a lot of lists, each of which says that the same large buffer is its own
far     a list of addresses, each in another piece of memory that is only mapped, not there
"""
import ctypes
import gc
import mmap
import os
import struct
import sys
import time

COUNT = 3000
SIZE = 1 << 30
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
NORESERVE = 0x4000


def reserve(size):
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE
    at = libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    assert at not in (None, 2 ** 64 - 1), ctypes.get_errno()
    return at


def forge(items, at, count):
    """The list says that it has so many items, and where."""
    head = 16
    ctypes.memmove(id(items) + head, struct.pack("<QQQ", count, at, count), 24)


gc.disable()  # it would look at them, too
keep = []
if sys.argv[1] == "lists":
    buffer = reserve(SIZE)
    for _ in range(COUNT):
        keep.append([])
        forge(keep[-1], buffer, SIZE // 8)
else:
    region = reserve(1 << 40)
    addresses = struct.pack("<%dQ" % (1 << 20), *[region + (i << 20) for i in range(1 << 20)])
    table = reserve(len(addresses))
    ctypes.memmove(table, addresses, len(addresses))
    del addresses
    keep.append([])
    forge(keep[-1], table, 1 << 20)
print("ready", os.getpid(), flush=True)
time.sleep(600)
