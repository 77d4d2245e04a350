"""Python called from C called from Python, in every way that has its own C path."""
import ctypes
import functools
import os
import sys
import time

COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


def leaf():
    print("ready", os.getpid())
    sys.stdout.flush()
    time.sleep(100000)  # LINE:leaf
    return 0


def by_compare(_left, _right):
    return leaf()  # LINE:by_compare


def by_qsort():
    numbers = (ctypes.c_int * 2)(2, 1)
    libc = ctypes.CDLL(None)
    libc.qsort(numbers, 2, 4, COMPARE(by_compare))  # LINE:by_qsort


class Value:
    @property
    def size(self):
        return by_qsort()  # LINE:size

    def __add__(self, other):
        return self.size  # LINE:add

    def __init__(self, nested=False):
        if nested:
            Value() + Value()  # LINE:init

    def __call__(self, number):
        return Value(nested=True)  # LINE:call


def by_partial(_first, second):
    return list(map(Value(), [second]))  # LINE:by_partial


def by_key(item):
    return functools.partial(by_partial, 1)(item)  # LINE:by_key


def by_star(*items, **named):
    return sorted(items, key=by_key)  # LINE:by_star


def main():
    by_star(*[3], **{"name": 1})  # LINE:main


main()  # LINE:module
