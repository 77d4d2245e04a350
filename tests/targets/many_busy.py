"""Threads that all want the GIL. Argument: how many."""
import os
import sys
import threading


def work():
    number = 0
    while True:
        for step in range(1000):
            number = (number * 31 + step) % 1000003


def main():
    threading.stack_size(256 * 1024)
    for _ in range(int(sys.argv[1]) - 1):
        thread = threading.Thread(target=work)
        thread.daemon = True
        thread.start()
    os.write(1, ("ready %d\n" % os.getpid()).encode())
    work()


main()
