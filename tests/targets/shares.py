"""
Functions of known shares of the time, and what else a profile must tell apart.

usage: shares.py [fork|end]. fork: the same in a child as well; end: ends after a second.
"""
import os
import sys
import threading
import time

END = time.time() + 1 if "end" in sys.argv else None


def burn(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass  # LINE:burn


def half():
    burn(0.05)  # LINE:half


def fifth():
    burn(0.02)  # LINE:fifth


def rest():
    time.sleep(0.03)  # LINE:rest


def turn():
    half()
    fifth()
    rest()


def sleeper():
    while True:
        time.sleep(1000)


def in_child():
    while True:
        burn(0.05)


def main():
    thread = threading.Thread(target=sleeper, name="sleeper")
    thread.daemon = True
    thread.start()
    child = os.fork() if "fork" in sys.argv else None
    if child == 0:
        in_child()
    print("ready", os.getpid(), child or "")
    sys.stdout.flush()
    while END is None or time.time() < END:
        turn()  # LINE:main


main()
