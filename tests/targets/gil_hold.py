"""The main thread sleeps in C without giving up the GIL; another one wants it."""
import ctypes
import os
import threading
import time


def wants():
    count = 0
    while True:
        count += 1  # LINE:wants


def hold(libc):
    libc.sleep(100000)  # LINE:hold


def main():
    libc = ctypes.PyDLL(None)
    thread = threading.Thread(target=wants, name="wants")
    thread.daemon = True
    thread.start()
    time.sleep(0.05)
    text = ("ready %d\n" % os.getpid()).encode()
    libc.write(1, text, len(text))  # does not give up the GIL either
    hold(libc)  # LINE:main


main()
