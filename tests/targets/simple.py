"""A small process: three calls deep, asleep, with one helper thread."""
import os
import sys
import threading
import time


def helper(event):
    event.wait()  # LINE:helper


def leaf(depth, label):
    total = depth * 2
    print("ready", os.getpid())
    sys.stdout.flush()
    time.sleep(100000)  # LINE:leaf
    return total, label


def middle(depth):
    return leaf(depth + 1, label="inner")  # LINE:middle


def main():
    thread = threading.Thread(target=helper, args=(threading.Event(),), name="helper")
    thread.daemon = True
    thread.start()
    middle(20)  # LINE:main


if __name__ == "__main__":
    main()  # LINE:module
