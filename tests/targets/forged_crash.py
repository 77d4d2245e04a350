"""A hostile user: has the record of a crash that never was; its address goes into a file.

Usage: forged_crash.py FILE
"""
import ctypes
import os
import struct
import sys
import time

SIGNAL, SIGSEGV = 1, 11
UNKNOWN = -2 ** 63
record = b"PBCRASH\n" + struct.pack("<IIiiiiii", 1, SIGNAL, os.getpid(), os.getpid(), SIGSEGV, 1,
                                    0, 0)
record += struct.pack("<QqQQIIqq", 16, time.time_ns(), 0, 0, 0, 0, UNKNOWN, UNKNOWN)
record = ctypes.create_string_buffer(record.ljust(512, b"\0"), 512)
with open(sys.argv[1], "w") as file:
    file.write("%x" % ctypes.addressof(record))
print("ready", os.getpid(), flush=True)
time.sleep(600)
