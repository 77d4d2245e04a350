"""One frame of each kind of detail: where in the line it is, and which variables are arguments."""
import os
import sys
import time


def leaf(first, second=2, *rest, keyword=4, **others):
    made = first
    sys.stdout.write("ready %d\n" % os.getpid())
    sys.stdout.flush()
    return [made, time.sleep(100000)]  # LINE:leaf


def closure(shared, own):
    def inner():
        return leaf(shared, 3, 5, 6, keyword=7, extra=8), own2  # LINE:inner
    own2 = own
    return (1 +
            inner() +  # LINE:closure
            2)


def größe(ä):
    return "ä線", closure(ä, 2)  # LINE:wide


größe(1)  # LINE:module
