"""Interpreters inside each other: the main one runs a second, and that a third, on one thread.

With the word "thread" a second thread does the same in interpreters of its own; with "inside" the
innermost interpreter starts a thread.
"""
import sys
import threading
import time

try:
    import _interpreters as _made
except ImportError:
    import _xxsubinterpreters as _made

INNER = """
import os, sys, time
def inside():
    time.sleep(100000)
if INSIDE:
    import threading
    threading.Thread(target=inside, name="inside").start()
def innermost():
    os.write(1, ("ready %d\\n" % os.getpid()).encode() if FIRST else b"")
    time.sleep(100000)
innermost()
"""
MIDDLE = """
try:
    import _interpreters as made
except ImportError:
    import _xxsubinterpreters as made
def between(code):
    made.run_string(made.create(), code)
between(INNER)
"""


def outer(first):
    inner = INNER.replace("FIRST", str(first)).replace("INSIDE", str("inside" in sys.argv))
    _made.run_string(_made.create(), MIDDLE.replace("INNER", repr(inner)))  # LINE:outer


def nested_thread():
    outer(False)  # LINE:thread


def main():
    _made.create()  # one that runs nothing
    if "thread" in sys.argv:
        thread = threading.Thread(target=nested_thread, name="nested")
        thread.daemon = True
        thread.start()
        time.sleep(0.2)
    outer(True)  # LINE:main


main()  # LINE:module
