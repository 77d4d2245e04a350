"""Local variables: as repr() shows them, cut where they are long."""
import os
import re
import subprocess
import sys

import pytest

import torches
from harness import TARGETS, Target, backtrace, main_thread

SCALARS = {
    "none": None, "yes": True, "no": False, "ellipsis": ...,
    "zero": 0, "one": 1, "minus": -1, "small": 255, "digit_edge": 2 ** 30,
    "digit_edge_minus": -(2 ** 30), "two_digits": 2 ** 60 - 1, "word": 2 ** 63,
    "huge": 10 ** 100, "huge_minus": -(10 ** 50),
    "half": 0.5, "tenth": 0.1, "whole": 3.0, "minus_zero": -0.0, "large": 1e300,
    "tiny": 5e-324, "infinite": float("inf"), "not_a_number": float("nan"),
    "complex_number": 1.5 - 2j, "imaginary": 2j,
}
TEXTS = {
    "argument": 0, "rest": (), "named": {},
    "empty": "", "ascii_text": "hello", "quotes": "it's", "both_quotes": "'\"",
    "escapes": "a\tb\nc\\d\x00\x7f", "latin": "caf\xe9", "wide": "\u65e5\u672c",
    "astral": "\U0001f600!", "lone": "\ud800", "no_bytes": b"", "some_bytes": b"ab\x00\xff'",
    "byte_array": bytearray(b"xyz"),
}
CONTAINERS = {
    "argument": 0, "empty_list": [], "numbers": [1, 2, 3], "empty_tuple": (), "single": (1,),
    "empty_dict": {}, "small_dict": {"a": 1, "b": [2]},
    "mixed_keys": {1: "one", None: 2, (1, 2): 3}, "holes": {"a": 1, "c": 3},
    "empty_set": set(), "one_set": {7}, "frozen": frozenset(["only"]),
    "numbers_range": range(3),
}


@pytest.fixture(scope="module")
def values(shared):
    target = shared("locals.py")
    thread = main_thread(backtrace(target.pid, "-l"))
    return {frame["func"].split(".")[-1]: frame["locals"] for frame in thread["frames"]}


def check(found, expected):
    wrong = {name: (found.get(name), repr(value)) for name, value in expected.items()
             if found.get(name) != repr(value)}
    assert not wrong


def test_scalars(values):
    check(values["scalars"], SCALARS)
    assert set(values["scalars"]) == set(SCALARS)


def test_texts(values):
    check(values["texts"], TEXTS)
    long_text = values["texts"]["long_text"]
    assert long_text.startswith("'" + "x" * 50) and len(long_text) < 1000


def test_containers(values):
    found = values["containers"]
    check(found, CONTAINERS)
    assert found["nested"].startswith("[[1, [2, ")
    assert found["long_list"].startswith("[0, 1, 2, 3") and len(found["long_list"]) < 1000
    assert found["big_dict"].startswith("{'0': 0, '1': 1, ")
    assert found["big_dict"].endswith(" more}") and len(found["big_dict"]) < 1000


def test_cycles_end(values):
    found = values["containers"]
    assert re.match(r"\[1, .*\]$", found["cyclic"]) and len(found["cyclic"]) < 200
    assert re.match(r"\{'self': .*\}$", found["cyclic_dict"]) and len(found["cyclic_dict"]) < 200


def test_objects(values):
    found = values["objects"]
    assert re.search(r"\bPlain at 0x[0-9a-f]+", found["plain"])
    for part in ("alpha", "1", "beta", "'two'", "gamma", "[3]"):
        assert part in found["plain"]
    assert re.search(r"\bSlotted at 0x[0-9a-f]+", found["slotted"])
    assert "'text'" in found["named"]
    assert "41" in found["number"]
    assert "Plain" in found["class_object"]
    assert "scalars" in found["function"]
    assert "len" in found["builtin"]
    assert "os" in found["module"]
    assert "genexpr" in found["generator"]
    assert re.search(r"\bobject at 0x[0-9a-f]+", found["bare"])
    assert "deleted" not in found
    if "array" in found:
        assert "ndarray" in found["array"]


def test_cells_and_closures(values):
    assert values["inner"]["own"] == "'mine'"
    assert values["inner"]["counter"] == "7"
    assert "Plain at 0x" in values["inner"]["shared"]
    assert "unset" not in values["inner"]
    assert values["cells"]["counter"] == "7"
    assert "Plain at 0x" in values["cells"]["shared"]


def test_module_level_has_no_flood(values):
    """Functions, classes and modules, which everybody has, are left out."""
    found = dict(values["<module>"])
    found.pop("numpy", None)  # None where there is no such module
    assert found == {"setting": "{'rate': 0.5}", "steps": "20"}


def test_no_locals_unless_asked(shared):
    thread = main_thread(backtrace(shared("locals.py").pid))
    assert all(frame["locals"] is None for frame in thread["frames"])


def test_arguments_come_first(shared):
    target = shared("simple.py")
    thread = main_thread(backtrace(target.pid, "-l"))
    assert thread["frames"][0]["locals"] == {"depth": "21", "label": "'inner'", "total": "42"}
    assert list(thread["frames"][0]["locals"]) == ["depth", "label", "total"]


def test_variables_of_the_program_itself(values):
    """Its own, not what it has imported or defined."""
    found = {name: text for name, text in values["<module>"].items() if name != "numpy"}
    assert found == {"setting": "{'rate': 0.5}", "steps": "20"}


TENSORS = {
    "small": "<torch.Tensor shape=(2, 2) dtype=float32 device=cpu [1.0, 2.5, -3.0, 0.25]",
    "weight": "<torch.nn.parameter.Parameter shape=(3,) dtype=float32 device=cpu requires_grad "
              "[1.0, 1.0, 1.0]",
    "frozen": "<torch.nn.parameter.Parameter shape=(2,) dtype=float32 device=cpu [1.0, 1.0]",
    "result": "<torch.Tensor shape=(3,) dtype=float32 device=cpu requires_grad [2.0, 2.0, 2.0]",
    "large": "<torch.Tensor shape=(8, 128, 64) dtype=bfloat16 device=cpu",
    "half": "<torch.Tensor shape=(2,) dtype=bfloat16 device=cpu [1.5, -2.0]",
    "numbers": "<torch.Tensor shape=(10,) dtype=int64 device=cpu [0, 1, 2, 3, 4, 5, … 4 more]",
    "part": "<torch.Tensor shape=(3,) dtype=int64 device=cpu [2, 3, 4]",
    "turned": "<torch.Tensor shape=(3, 2) dtype=int64 device=cpu",
    "flags": "<torch.Tensor shape=(2,) dtype=bool device=cpu [True, False]",
    "alone": "<torch.Tensor shape=() dtype=int64 device=cpu [7]",
    "empty": "<torch.Tensor shape=(0, 4) dtype=float32 device=cpu",
    "deep": "<torch.Tensor shape=(1, 2, 1, 2, 1, 2, 1) dtype=float32 device=cpu "
            "[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, … 2 more]",
    "nowhere": "<torch.Tensor shape=(5,) dtype=float32 device=meta",
    "array": "<numpy.ndarray shape=(2, 3) dtype=int32 [1, 2, 3, 4, 5, 6]",
    "many": "<numpy.ndarray shape=(33,) dtype=float64 [0.0, 0.03125, 0.0625, 0.09375, 0.125, "
            "0.15625, … 27 more]",
    "slanted": "<numpy.ndarray shape=(3, 2) dtype=float64",
}


@pytest.mark.skipif(not torches.pythons(), reason="no interpreter with torch")
def test_tensors(start):
    target = start(torches.Loop, "tensors.py")
    thread = main_thread(backtrace(target.pid, "-l"))
    found = [frame for frame in thread["frames"] if frame["func"] == "holds"][0]["locals"]
    assert {name: re.sub(r" at 0x[0-9a-f]+>$", "", found[name]) for name in TENSORS} == TENSORS
    assert found["inside"].startswith("{'batch': (<torch.Tensor shape=(2, 2) dtype=float32 ")


def test_dataframes(start):
    """Shape and columns of pandas' tables, out of its own objects."""
    has = subprocess.run([sys.executable, "-c", "import pandas"], stderr=subprocess.DEVNULL)
    if has.returncode:
        pytest.skip("no pandas")
    target = start(Target, [sys.executable, os.path.join(TARGETS, "frames_of_pandas.py")])
    target.settle()
    frame, = [f for f in main_thread(backtrace(target.pid, "-l"))["frames"] if f["func"] == "work"]
    shown = {name: re.sub(r"<pandas\.\S* | at 0x[0-9a-f]+>", "", value)
             for name, value in frame["locals"].items()}
    assert shown == {
        "plain": "shape=(1000, 3) columns=['step', 'loss', 'tag']",
        "column": "shape=(1000,)",
        "wide": "shape=(3, 40)",
        "dated": "shape=(1000, 3) columns=['step', 'loss', 'tag']",
        "grouped": "shape=(1000, 1) columns=['loss']",
        "empty": "shape=(0, 0)",
        "many": "shape=(1, 9) columns=['c0', 'c1', 'c2', 'c3', 'c4', 'c5', … 3 more]",
    }
