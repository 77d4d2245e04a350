"""
tools/setup waits while another package manager has the lock, and fails at once for other reasons;
the Makefile says what it does not know.

usage: setup.py SOURCE
"""
import os
import shutil
import stat
import subprocess
import sys
import tempfile

# Fails as often as the file `busy` has lines, then "installs" clang-format beside itself.
APT = """#!/bin/sh
here=$(dirname "$0")
echo "$*" >>"$here/../asked"
if [ -s "$here/../busy" ]; then
    sed -i 1d "$here/../busy"
    [ "$LC_ALL" = C ] && cat "$here/../words" || echo "E: Ging nicht"
    exit 100
fi
case "$*" in *install*clang-format*) cp "$0" "$here/clang-format" ;; esac
"""
TOOLS = ["cat", "cp", "dirname", "grep", "id", "mkdir", "rm", "sed", "sh", "sleep", "tail",
         "true"]
LOCKED = "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (apt-get)\n"


def setup(source, folder, busy, words, what="format"):
    """(exit code, what it said, how often apt-get was asked)"""
    bin_ = os.path.join(folder, "bin")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(bin_)
    os.makedirs(os.path.join(folder, "tools"))
    shutil.copy(os.path.join(source, "tools", "setup"), os.path.join(folder, "tools"))
    for name in TOOLS:
        os.symlink(shutil.which(name), os.path.join(bin_, name))
    for name in ("cc", "cmake", "ninja", "sudo"):
        os.symlink("/bin/true", os.path.join(bin_, name))
    with open(os.path.join(bin_, "apt-get"), "w") as file:
        file.write(APT)
    os.chmod(file.name, stat.S_IRWXU)
    for name, text in (("busy", "x\n" * busy), ("words", words), ("asked", "")):
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)
    done = subprocess.run([os.path.join(folder, "tools", "setup"), what], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, universal_newlines=True,
                          env={"PATH": bin_, "SETUP_PAUSE": "0.01", "SETUP_TRIES": "20"})
    with open(os.path.join(folder, "asked")) as file:
        return done.returncode, done.stdout, file.read().count("\n")


def check_setup(source, folder):
    code, said, asked = setup(source, folder, 0, "")
    assert (code, asked) == (0, 1) and "waiting" not in said, (code, said, asked)
    code, said, asked = setup(source, folder, 3, LOCKED)
    assert (code, asked) == (0, 4), (code, said, asked)
    assert said.count("waiting for another package manager to end") == 1, said
    code, said, asked = setup(source, folder, 100, LOCKED)
    assert code == 1 and "could not install: clang-format" in said and asked >= 20, (said, asked)
    code, said, asked = setup(source, folder, 100, "E: Unable to locate package clang-format\n")
    assert code == 1 and asked == 2 and "Unable to locate" in said, (said, asked)
    code, said, asked = setup(source, folder, 0, "", "tset")
    assert code == 2 and "unknown: tset" in said and asked == 0, said


def check_make(source):
    for words, wanted in (("tests", "no goal 'tests'"), ("test JOB=3", "no variable 'JOB'"),
                          ("demo nosuch", "no goal 'nosuch'")):
        done = subprocess.run(["make", "-n"] + words.split(), cwd=source, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True)
        assert done.returncode == 2 and wanted in done.stderr, done
    done = subprocess.run(["make", "-n", "build", "JOBS=1", "CC=cc"], cwd=source,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    assert done.returncode == 0 and "tools/setup build" in done.stdout, done


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where:
        check_setup(sys.argv[1], os.path.join(where, "copy"))
    check_make(sys.argv[1])
