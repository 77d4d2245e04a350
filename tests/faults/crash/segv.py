"""C code that is handed an address where nothing is."""
# expect: crash
# class: SIGSEGV
# probes: yes
import ctypes
import os


def load_shard(number):
    return number, ctypes.string_at(8)  # here


print("stall", flush=True)
os.read(0, 1)
load_shard(7)
