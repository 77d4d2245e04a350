"""Recursion 10,000 deep, in a thread with room for it."""
import os
import sys
import threading
import time

DEPTH = 10000


def bottom():
    print("ready", os.getpid())
    sys.stdout.flush()
    time.sleep(100000)  # LINE:bottom


def recurse(left):
    if left == 1:
        bottom()  # LINE:turn
    else:
        recurse(left - 1)  # LINE:recurse


def main():
    sys.setrecursionlimit(DEPTH * 2)
    threading.stack_size(256 * 1024 * 1024)
    thread = threading.Thread(target=recurse, args=(DEPTH,), name="deep")
    thread.start()
    thread.join()  # LINE:main


main()
