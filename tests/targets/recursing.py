"""Recursion that goes down and up all the time, 200 calls deep."""
import os
import sys


def down(depth):
    if depth:
        return 1 + down(depth - 1)
    return 0


def main():
    print("ready", os.getpid())
    sys.stdout.flush()
    while True:
        down(200)


main()
