"""A parent with two forked children, each in a function of its own, and one zombie."""
import os
import sys
import time


def child_one():
    time.sleep(100000)  # LINE:child_one


def child_two():
    time.sleep(100000)  # LINE:child_two


def parent(children):
    print("ready", os.getpid(), *children)
    sys.stdout.flush()
    time.sleep(100000)  # LINE:parent


def start(function):
    pid = os.fork()
    if pid == 0:
        function()  # LINE:start
    return pid


def main():
    children = [start(child_one), start(child_two), start(lambda: os._exit(0))]
    time.sleep(0.05)
    parent(children)


main()
