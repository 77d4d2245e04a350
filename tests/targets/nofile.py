"""Code that no file holds: exec, eval and a made-up file name."""
import os
import sys
import time

INNER = """
def outer_made():

    inner_made()

def inner_made():
    pause()
"""


def pause():
    print("ready", os.getpid())
    sys.stdout.flush()
    time.sleep(100000)  # LINE:pause


def main():
    space = {"pause": pause}
    exec(INNER, space)
    exec(compile("\n\nouter_made()", "<made up>", "exec"), space)  # LINE:main


eval("main()")  # LINE:module
