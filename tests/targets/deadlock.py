"""Two threads that wait for each other's lock."""
import os
import sys
import threading

LEFT = threading.Lock()
RIGHT = threading.Lock()
BOTH = threading.Barrier(2)


def left_then_right():
    with LEFT:
        BOTH.wait()
        with RIGHT:  # LINE:left_then_right
            pass


def right_then_left():
    with RIGHT:
        BOTH.wait()
        RIGHT_HELD.set()
        LEFT.acquire()  # LINE:right_then_left


RIGHT_HELD = threading.Event()
ONE = threading.Thread(target=left_then_right, name="one")
TWO = threading.Thread(target=right_then_left, name="two")
ONE.start()
TWO.start()
RIGHT_HELD.wait()
print("ready", os.getpid())
sys.stdout.flush()
ONE.join()  # LINE:module
