"""
What `make install` puts into a folder: it is complete, works from wherever it is moved to, and
goes again.

usage: check.py CMAKE BUILD SOURCE
"""
import os
import shutil
import subprocess
import sys
import tempfile

FILES = {
    "bin/probing",
    "share/man/man1/probing.1",
    "share/bash-completion/completions/probing",
    "share/zsh/site-functions/_probing",
    "share/fish/vendor_completions.d/probing.fish",
}
# What the executable may need: the C library, and a sanitizer that it was built with.
C_LIBRARY = ("libc.so.", "libm.so.", "libdl.so.", "libpthread.so.", "librt.so.", "ld-linux",
             "libasan.so.", "libtsan.so.", "libubsan.so.")
ENGINE = {"lib/probing/libduckdb.so", "lib/probing/LICENSE.duckdb"}


def run(*words, **env):
    return subprocess.run(words, env=dict(os.environ, **env), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True)


def files(folder):
    return {os.path.relpath(os.path.join(where, name), folder)
            for where, _, names in os.walk(folder) for name in names}


def check(cmake, build, source, folder):
    stage = os.path.join(folder, "stage")
    done = run(cmake, "--install", build, "--prefix", "/usr/local", DESTDIR=stage)
    assert done.returncode == 0, done
    with_engine = os.path.exists(os.path.join(source, "build", "duckdb", "libduckdb.so"))
    wanted = FILES | (ENGINE if with_engine else set())
    found = files(os.path.join(stage, "usr/local"))
    terms = {path for path in found if path.startswith("share/doc/probing/copyright.")}
    assert found - terms == wanted, found
    needed = run("readelf", "-d", os.path.join(stage, "usr/local/bin/probing")).stdout
    libraries = {line.split("[")[1].rstrip("]") for line in needed.splitlines() if "NEEDED" in line}
    assert all(name.startswith(C_LIBRARY) for name in libraries), libraries

    moved = os.path.join(folder, "moved")
    shutil.move(os.path.join(stage, "usr/local"), moved)
    link = os.path.join(folder, "probing")
    os.symlink(os.path.join(moved, "bin/probing"), link)
    home = os.path.join(folder, "home")
    for tool in (os.path.join(moved, "bin/probing"), link):
        done = run(tool, "query", "-f", "csv", "select 41 + 1 as n", PROBING_HOME=home,
                   PROBING_ENGINE="")
        run(tool, "serve", "--stop", PROBING_HOME=home)
        if with_engine:
            assert (done.returncode, done.stdout) == (0, "n\n42\n"), done
        else:
            assert done.returncode == 1 and "no SQL engine: no libduckdb.so" in done.stderr, done

    shutil.move(moved, os.path.join(stage, "usr/local"))
    done = run(os.path.join(source, "tools/uninstall"), build, stage)
    assert done.returncode == 0 and not files(stage), done
    assert not os.path.exists(os.path.join(stage, "usr/local/lib/probing"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where:
        check(*sys.argv[1:4], where)
