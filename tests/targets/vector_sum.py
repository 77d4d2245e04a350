"""Sums in vector registers, over and over. Argument: the library built from vector_sum.c."""
import ctypes
import os
import sys

STEPS = 20000


def main():
    library = ctypes.CDLL(sys.argv[1])
    library.sum.restype = ctypes.c_double
    library.sum.argtypes = [ctypes.c_uint, ctypes.c_long]
    expected = [library.sum(seed, STEPS).hex() for seed in range(8)]
    os.write(1, ("ready %d\n" % os.getpid()).encode())
    while True:
        for seed in range(8):
            if library.sum(seed, STEPS).hex() != expected[seed]:
                os.write(2, b"a sum is wrong\n")
                os._exit(9)


main()
