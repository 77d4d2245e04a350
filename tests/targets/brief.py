"""Lives for the seconds in argv[1], working with threads that come and go, then exits."""
import os
import sys
import threading
import time


def work(until):
    while time.time() < until:
        sum(range(100))


def main():
    until = time.time() + float(sys.argv[1])
    print("ready", os.getpid())
    sys.stdout.flush()
    while time.time() < until:
        thread = threading.Thread(target=work, args=(time.time() + 0.002,))
        thread.start()
        thread.join()


main()
