"""C programs with an interpreter inside, built for the interpreter under test."""
import os
import shutil
import subprocess

import pytest

from harness import TARGETS


def build(py, folder, source):
    """The program made of tests/targets/SOURCE; skips the test where it cannot be built."""
    if py.wrapped or not os.path.exists(os.path.join(py.facts["include"], "Python.h")):
        pytest.skip("no headers of this interpreter")
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("no C compiler")
    program = os.path.join(str(folder), source.rpartition(".")[0])
    library = os.path.basename(py.facts["ldlibrary"])
    name = library[len("lib"):].split(".so")[0].split(".a")[0]
    # A library that was moved after it was built tells where it was; its headers are still right.
    libdir = py.facts["libdir"]
    if not os.path.exists(os.path.join(libdir, library)):
        libdir = os.path.join(py.facts["prefix"], "lib")
    made = subprocess.run([compiler, "-w", "-o", program, os.path.join(TARGETS, source),
                           "-I" + py.facts["include"], "-L" + libdir, "-Wl,-rpath," + libdir,
                           "-l" + name, "-lpthread", "-ldl", "-lutil", "-lm"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if made.returncode:
        pytest.skip("cannot be linked here: " + made.stdout.decode()[-200:])
    return program


def build_module(py, folder, source, name):
    """The extension module NAME made of tests/targets/SOURCE; its path."""
    if py.wrapped or not os.path.exists(os.path.join(py.facts["include"], "Python.h")):
        pytest.skip("no headers of this interpreter")
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("no C compiler")
    library = os.path.join(str(folder), name + ".so")
    subprocess.run([compiler, "-w", "-O1", "-shared", "-fPIC", "-o", library,
                    os.path.join(TARGETS, source), "-I" + py.facts["include"]], check=True)
    return library


def environment(py):
    return {"PYTHONHOME": py.facts["prefix"]}
