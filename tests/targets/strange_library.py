"""A hostile user: has mapped a library whose file means harm to whoever looks for Python in it.

cut     the file is cut off and put back without end; nothing in this process touches it
vast    its table of symbols takes a whole sparse file
many    the same, in many files
"""
import ctypes
import mmap
import os
import struct
import sys
import time

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
DATA = 8192  # from here on all is zero
SHT_STRTAB, SHT_DYNSYM, PT_LOAD = 3, 11, 1
LIBRARY, X86_64, AARCH64 = 3, 62, 183


def head(size):
    """A library with nothing but symbols that have no name."""
    machine = X86_64 if os.uname()[4] == "x86_64" else AARCH64
    elf = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", LIBRARY, machine, 1, 0, 64, 512, 0, 64, 56, 1, 64, 3, 0)
    load = struct.pack("<IIQQQQQQ", PT_LOAD, 5, 0, 0, 0, size, size, 4096)

    def section(kind, at, length, link):
        return struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, at, length, link, 0, 8, 24)

    return ((elf + load).ljust(512, b"\0") + bytes(64)
            + section(SHT_DYNSYM, DATA, size - DATA, 2) + section(SHT_STRTAB, 0, 64, 0))


def make(folder, number, size):
    path = "%s/libpython3.%d.so" % (folder, number)
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    os.ftruncate(fd, size)
    os.pwrite(fd, head(size), 0)
    # Below everything else: it is looked at first.
    libc.mmap(0x10000 + 0x2000 * number, 4096, mmap.PROT_READ, mmap.MAP_PRIVATE, fd, 0)
    return fd


how, where = sys.argv[1:3]
if how == "cut":
    size = 256 << 20
    fd = make(where, 0, size)
    print("ready", os.getpid(), flush=True)
    while True:
        os.ftruncate(fd, DATA)
        os.ftruncate(fd, size)
        time.sleep(0.001)
for number in range(100 if how == "many" else 1):
    os.close(make(where, number, 1 << 43 if how == "vast" else 1 << 30))
print("ready", os.getpid(), flush=True)
time.sleep(600)
