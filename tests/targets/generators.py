"""Generators that delegate to generators, methods, closures and comprehensions."""
import os
import sys
import time


def leaf():
    print("ready", os.getpid())
    sys.stdout.flush()
    time.sleep(100000)  # LINE:leaf


def innermost():
    yield 1
    leaf()  # LINE:innermost
    yield 2


def delegate():
    yield 0
    yield from innermost()  # LINE:delegate


class Box:
    def produce(self):
        yield from delegate()  # LINE:produce

    def consume(self):
        def closure():
            return sum(item for item in self.produce())  # LINE:closure

        return closure()  # LINE:consume


def main():
    handler = lambda box: box.consume()  # LINE:handler
    handler(Box())  # LINE:main


main()  # LINE:module
