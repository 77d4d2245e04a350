"""Local variables of every kind. Each function holds one family and calls the next."""
import os
import sys
import time

try:
    import numpy
except ImportError:
    numpy = None


class Plain:
    def __init__(self):
        self.alpha = 1
        self.beta = "two"
        self.gamma = [3]


class Slotted:
    __slots__ = ("left", "right")

    def __init__(self):
        self.left = 1
        self.right = 2


class Named(str):
    pass


class Number(int):
    pass


def sleep(expected):
    print("ready", os.getpid())
    sys.stdout.flush()
    time.sleep(100000)  # LINE:sleep


def scalars():
    none = None
    yes = True
    no = False
    ellipsis = ...
    zero = 0
    one = 1
    minus = -1
    small = 255
    digit_edge = 2 ** 30
    digit_edge_minus = -(2 ** 30)
    two_digits = 2 ** 60 - 1
    word = 2 ** 63
    huge = 10 ** 100
    huge_minus = -(10 ** 50)
    half = 0.5
    tenth = 0.1
    whole = 3.0
    minus_zero = -0.0
    large = 1e300
    tiny = 5e-324
    infinite = float("inf")
    not_a_number = float("nan")
    complex_number = 1.5 - 2j
    imaginary = 2j
    texts(0)  # LINE:scalars


def texts(argument, *rest, **named):
    empty = ""
    ascii_text = "hello"
    quotes = "it's"
    both_quotes = "'\""
    escapes = "a\tb\nc\\d\x00\x7f"
    latin = "caf\xe9"
    wide = "\u65e5\u672c"
    astral = "\U0001f600!"
    lone = "\ud800"
    long_text = "x" * 10000
    no_bytes = b""
    some_bytes = b"ab\x00\xff'"
    byte_array = bytearray(b"xyz")
    containers(0)  # LINE:texts


def containers(argument):
    empty_list = []
    numbers = [1, 2, 3]
    nested = [[1, [2, [3, [4]]]], ("a", {"k": (1,)})]
    long_list = list(range(1000))
    cyclic = [1]
    cyclic.append(cyclic)
    empty_tuple = ()
    single = (1,)
    empty_dict = {}
    small_dict = {"a": 1, "b": [2]}
    mixed_keys = {1: "one", None: 2, (1, 2): 3}
    holes = {"a": 1, "b": 2, "c": 3}
    del holes["b"]
    big_dict = {str(number): number for number in range(500)}
    cyclic_dict = {}
    cyclic_dict["self"] = cyclic_dict
    empty_set = set()
    one_set = {7}
    frozen = frozenset(["only"])
    numbers_range = range(3)
    objects(0)  # LINE:containers


def objects(argument):
    plain = Plain()
    slotted = Slotted()
    named = Named("text")
    number = Number(41)
    class_object = Plain
    function = scalars
    builtin = len
    module = os
    generator = (item for item in [1])
    bare = object()
    if numpy is not None:
        array = numpy.zeros((2, 3))
        scalar = numpy.float64(1.5)
    deleted = 1
    del deleted
    cells(plain)  # LINE:objects


def cells(shared):
    counter = 7

    def inner(own):
        unset = None
        del unset
        sleep((shared, counter, own))  # LINE:inner

    inner("mine")  # LINE:cells


setting = {"rate": 0.5}
steps = 20
scalars()  # LINE:module
