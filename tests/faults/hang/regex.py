"""A regular expression that backtracks for ever."""
# expect: hang
import re


def parse(text):
    return re.match(r"(a+)+$", text)  # here


print("stall", flush=True)
parse("a" * 60 + "b")
