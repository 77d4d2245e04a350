"""C code without the GIL that watches its clock. Arguments: its library, a shared file."""
import ctypes
import mmap
import os
import sys


def main():
    library = ctypes.CDLL(sys.argv[1])
    with open(sys.argv[2], "r+b") as file:
        memory = mmap.mmap(file.fileno(), 4096)
    words = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    os.write(1, ("ready %d\n" % os.getpid()).encode())
    library.watch(ctypes.c_void_p(words))


main()
