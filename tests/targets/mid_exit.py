"""Ends a moment after it began, with things to do at exit. Argument: seconds to live."""
import atexit
import os
import sys
import threading
import time


def linger():
    time.sleep(0.005)


def main():
    for _ in range(3):
        atexit.register(linger)
    thread = threading.Thread(target=time.sleep, args=(1000,))
    thread.daemon = True
    thread.start()
    os.write(1, ("ready %d\n" % os.getpid()).encode())
    time.sleep(float(sys.argv[1]))


main()
