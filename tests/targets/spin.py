"""A process that never rests: one thread on a CPU, through a few calls."""
import os
import sys


def inner(number):
    return number + 1  # LINE:inner


def outer(number):
    for _ in range(50):
        number = inner(number)  # LINE:outer
    return number


def main():
    number = 0
    print("ready", os.getpid())
    sys.stdout.flush()
    while True:
        number = outer(number)  # LINE:main


main()  # LINE:module
