"""A thread that never rests, whose variables are cells that live as short as its calls.

In every frame of `go`, `name` says which call this is: of which loop, and how deep. `deep` is how
deep, a number that is never freed.
"""
import os


def go(loop, deep):
    name = "%s %d" % (loop, deep)
    filled = [name] * 3

    def own():
        return name, filled

    if deep < 8:
        go(loop, deep + 1)
    return own()


def main():
    print("ready", os.getpid(), flush=True)
    while True:
        go("red", 0)
        go("blue", 0)


main()
