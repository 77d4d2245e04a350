"""Python and an extension module that call each other; the module's folder is named first."""
import os
import sys
import time

sys.path.insert(0, sys.argv[1])
import probing_extension


def leaf():
    print("ready", os.getpid())
    sys.stdout.flush()
    time.sleep(100000)  # LINE:leaf


def middle():
    probing_extension.call_deep(leaf)  # LINE:middle


def main():
    probing_extension.call_back(middle)  # LINE:main


main()  # LINE:module
