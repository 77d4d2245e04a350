"""
tools/setup waits while another package manager has the lock, and fails at once for other reasons;
it tries a download three times, and another checkout needs none; the Makefile says what it does
not know.

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
# Fails as often as the file `busy` has lines, then "downloads" the page's packages.
NPM = """#!/bin/sh
here=$(dirname "$0")
echo "$*" >>"$here/../asked"
if [ -s "$here/../busy" ]; then
    sed -i 1d "$here/../busy"
    echo "npm error network"
    exit 1
fi
mkdir -p node_modules/esbuild
"""
TOOLS = ["cat", "cksum", "cmp", "cp", "dirname", "grep", "id", "ln", "mkdir", "mv", "rm", "sed",
         "sh", "sleep", "tail", "tr", "true"]
LOCKED = "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (apt-get)\n"


def setup(source, folder, busy, words, what="format", **env):
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
    for name, text in (("apt-get", APT), ("npm", NPM), ("node", "#!/bin/sh\n")):
        with open(os.path.join(bin_, name), "w") as file:
            file.write(text)
        os.chmod(file.name, stat.S_IRWXU)
    os.makedirs(os.path.join(folder, "web"))
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copy(os.path.join(source, "web", name), os.path.join(folder, "web"))
    for name, text in (("busy", "x\n" * busy), ("words", words), ("asked", "")):
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)
    done = subprocess.run([os.path.join(folder, "tools", "setup"), what], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, universal_newlines=True,
                          env=dict(env, PATH=bin_, SETUP_PAUSE="0.01", SETUP_TRIES="20"))
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


def check_downloads(source, folder):
    """Three tries; what was got serves the next checkout, what was not is left out."""
    kept = {"XDG_CACHE_HOME": os.path.join(os.path.dirname(folder), "cache")}
    package = os.path.join(folder, "web", "node_modules", "esbuild")
    code, said, asked = setup(source, folder, 3, "", "page", **kept)
    assert (code, asked) == (0, 3) and "everything but the page will work" in said, (said, asked)
    assert not os.path.exists(package)
    code, said, asked = setup(source, folder, 2, "", "page", **kept)
    assert (code, asked) == (0, 3) and os.path.isdir(package), (said, asked)
    code, said, asked = setup(source, folder, 100, "", "page", **kept)
    assert (code, said, asked) == (0, "", 0) and os.path.isdir(package), (said, asked)
    assert os.listdir(os.path.join(kept["XDG_CACHE_HOME"], "probing", "setup")) != []
    no_folder = os.path.join(folder, "bin", "npm")
    code, said, asked = setup(source, folder, 0, "", "page", HOME=no_folder)
    assert (code, asked) == (0, 1) and os.path.isdir(package), (said, asked)


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
        check_downloads(sys.argv[1], os.path.join(where, "copy"))
    check_make(sys.argv[1])
