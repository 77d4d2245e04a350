"""Threads that allocate without end. Arguments: the library of malloc_storm.c, how many."""
import ctypes
import os
import sys
import threading


def main():
    library = ctypes.CDLL(sys.argv[1])
    for seed in range(1, int(sys.argv[2])):
        thread = threading.Thread(target=library.storm, args=(seed,))
        thread.daemon = True
        thread.start()
    os.write(1, ("ready %d\n" % os.getpid()).encode())
    library.storm(0)


main()
