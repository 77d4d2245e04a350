"""Files of Python versions against the headers of the interpreters that are here."""
import os
import re
import shutil
import subprocess

import pytest

import interpreters
from harness import ROOT

VERSIONS = os.path.join(ROOT, "src", "cpython", "versions")
CALL = re.compile(r"([A-Z_]+)\(((?:[^()]|\([^()]*\))*)\)")

# What old versions have in a .c file.
BY_SOURCE = {"arena_size", "pool_size", "gc_list_size"}


def rules(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return {(kind, re.sub(r"BEHIND_MUTEXES\((\d+)\)", r"\1", args))
            for kind, args in CALL.findall(text)}


def made_by_headers(py, path):
    made = subprocess.run([os.path.join(ROOT, "tools", "python-layout"), py.command, "--like",
                           path], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          encoding="utf-8")
    assert made.returncode == 0, made.stderr
    return made.stdout


def needs_headers(py):
    inner = "internal" if py.minor > (3, 6) else "Python.h"
    if (py.wrapped or not shutil.which("cc") or py.minor < (3, 6)
            or not os.path.exists(os.path.join(py.facts["include"], inner))):
        pytest.skip("no headers of this interpreter")


def test_a_versions_file_says_what_its_headers_say(py):
    needs_headers(py)
    path = os.path.join(VERSIONS, "%d_%d.def" % py.minor)
    with open(path) as file:
        said = rules(file.read())
    version = [rule for rule in said if rule[0] == "VERSION"]
    found = rules(made_by_headers(py, path))
    assert len(version) == 1 and len(said) > 60
    wrong = {(kind, args) for kind, args in said - found
             if kind != "VERSION" and args.split(",")[0] not in BY_SOURCE}
    assert not wrong
    # What is only in the headers: not needed by anybody, in this version.
    extra = {args.split(",")[0] for kind, args in found - said if kind != "VERSION"}
    assert extra <= {"gil_holder", "gil_locked", "co_stacksize"}


def test_a_new_version_begins_as_its_predecessor():
    """docs/adding-a-python-version.md: 3.15 as one would have added it."""
    newest = [py for py in interpreters.chosen() if py.minor == (3, 15)]
    if not newest:
        pytest.skip("no Python 3.15 here")
    needs_headers(newest[0])
    text = made_by_headers(newest[0], os.path.join(VERSIONS, "3_14.def"))
    with open(os.path.join(ROOT, "docs", "adding-a-python-version.md")) as file:
        assert "$ head -5 3_15.def\n" + "".join(text.splitlines(True)[:5]) in file.read()
    with open(os.path.join(VERSIONS, "3_15.def")) as file:
        assert rules(text) == rules(file.read())
