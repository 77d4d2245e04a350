"""Many threads. Argument: how many."""
import os
import sys
import threading

GATE = threading.Event()


def worker(number):
    GATE.wait()  # LINE:worker


def main():
    threading.stack_size(256 * 1024)
    for number in range(int(sys.argv[1])):
        thread = threading.Thread(target=worker, args=(number,), name="worker-%d" % number)
        thread.daemon = True
        thread.start()
    print("ready", os.getpid())
    sys.stdout.flush()
    GATE.wait()  # LINE:main


main()
