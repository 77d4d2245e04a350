"""Which Python interpreters this machine has, found when the tests run."""
import functools
import glob
import json
import os
import platform
import shutil
import subprocess
import tempfile

import facts

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Built interpreters that no registry has, as python-VERSION.tar.xz, where somebody put them.
ARCHIVES = os.path.join(os.path.dirname(ROOT), "shared", "pythons")
ALL = bool(os.environ.get("PROBING_TEST_ALL"))  # `few` and `long` mean nothing
UNPACKED = os.path.join(ROOT, "build", "pythons")

ASK = """
import json, os, platform, struct, sys, sysconfig
exe = os.path.realpath(sys.executable)
at = os.stat(exe)
get = sysconfig.get_config_var
print(json.dumps({
    "version": list(sys.version_info[:3]),
    "exe": exe,
    "identity": [at.st_dev, at.st_ino],
    "cpython": platform.python_implementation() == "CPython",
    "debug": hasattr(sys, "gettotalrefcount"),
    "free_threaded": bool(get("Py_GIL_DISABLED")),
    "shared": bool(get("Py_ENABLE_SHARED")),
    "bits": struct.calcsize("P") * 8,
    "include": sysconfig.get_paths()["include"],
    "libdir": get("LIBDIR"),
    "ldlibrary": get("LDLIBRARY"),
    "prefix": sys.prefix,
}))
"""


class Interpreter:
    """One interpreter: how to start it, and what it says of itself."""

    def __init__(self, command, facts):
        self.command = command
        self.facts = facts
        self.version = tuple(facts["version"])
        self.minor = self.version[:2]
        self.debug = facts["debug"]
        self.free_threaded = facts["free_threaded"]
        # A wrapper (a chroot, a container) is started by its own name, and what
        # it says of its files does not hold out here.
        self.wrapped = command != facts["exe"]

    @property
    def text_version(self):
        return ".".join(map(str, self.version))

    @property
    def label(self):
        flags = ("t" if self.free_threaded else "") + ("d" if self.debug else "")
        return self.text_version + flags

    def q(self, qualified):
        """The name that a frame shows: qualified from 3.11 on."""
        return qualified if self.minor >= (3, 11) else qualified.split(".")[-1]

    def __repr__(self):
        return "Interpreter(%s, %s)" % (self.label, self.command)


def ask(path):
    try:
        answer = subprocess.run([path, "-c", ASK], stdout=subprocess.PIPE, cwd="/",
                                stderr=subprocess.DEVNULL, timeout=60)
        return json.loads(answer.stdout.decode())
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def unpack(archive):
    """Its folder, unpacked by whoever comes first: a folder with the final name is whole."""
    folder = os.path.join(UNPACKED, os.path.basename(archive)[:-len(".tar.xz")])
    if not os.path.isdir(folder):
        os.makedirs(UNPACKED, exist_ok=True)
        partial = tempfile.mkdtemp(dir=UNPACKED)
        subprocess.run(["tar", "-xJf", archive, "-C", partial], check=True)
        try:
            os.rename(os.path.join(partial, os.path.basename(folder)), folder)
        except OSError:
            assert os.path.isdir(folder), "%s holds no folder of its name" % archive
        shutil.rmtree(partial)
    return folder


@functools.lru_cache(maxsize=None)
def archived():
    """The interpreters in ARCHIVES, for the processor they were built for."""
    if platform.machine() != "x86_64":
        return []
    folders = map(unpack, sorted(glob.glob(os.path.join(ARCHIVES, "python-3*.tar.xz"))))
    return [os.path.join(folder, "bin", os.path.basename(folder).replace("-", ""))
            for folder in folders]


def candidates():
    folders = os.environ.get("PATH", "").split(":") + ["/usr/bin", "/usr/local/bin"]
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    folders += sorted(glob.glob(os.path.join(pyenv, "versions", "*", "bin")))
    for folder in folders:
        if folder == os.path.join(pyenv, "shims"):
            continue
        for path in sorted(glob.glob(os.path.join(folder, "python3*"))):
            tail = os.path.basename(path)[len("python3"):]
            if all(c.isdigit() or c in ".dmt" for c in tail) and os.access(path, os.X_OK):
                yield os.path.realpath(path), False
    for path in archived():
        yield os.path.realpath(path), False
    for path in os.environ.get("PROBING_TEST_PYTHONS", "").split(":"):
        if path:
            yield path, True


@functools.lru_cache(maxsize=None)
def found():
    """Every CPython from 3.4 on, oldest first; two names of one file count once."""
    seen, asked, out = set(), set(), []
    for path, as_given in candidates():
        if path in asked:
            continue
        asked.add(path)
        said = facts.remembered(path, lambda at=path: ask(at))
        if not said or not said["cpython"] or said["version"] < [3, 4] or said["bits"] != 64:
            continue
        key = (tuple(said["identity"]), tuple(said["version"]))
        if key not in seen:
            seen.add(key)
            out.append(Interpreter(path if as_given else said["exe"], said))
    return sorted(out, key=lambda item: (item.version, item.command))


def python2():
    """A Python 2.7, for the refusal; or None."""
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    paths = glob.glob(os.path.join(pyenv, "versions", "2.7*", "bin", "python2.7"))
    return (paths + [None])[0] or shutil.which("python2.7")


def readable():
    """Those whose stacks must be readable: no debug builds before 3.13."""
    return [item for item in found() if not item.debug or item.minor >= (3, 13)]


def chosen():
    """Interpreters for the tests; PROBING_TEST_ONLY=3.8,3.13 narrows them, or =newest."""
    only = os.environ.get("PROBING_TEST_ONLY")
    if not only:
        return readable()
    if only == "newest":
        return [newest_of(readable())]
    return [item for item in readable() if any(item.label.startswith(o) for o in only.split(","))]


def few():
    """The oldest, one of 3.11 and the newest, for what hardly depends on the version."""
    if ALL:
        return chosen()
    usual = [item for item in chosen() if not item.free_threaded]
    middle = [item for item in usual if item.minor == (3, 11) and not item.debug]
    picked = usual[:1] + middle[-1:] + usual[-1:]
    return sorted(set(picked), key=usual.index) or chosen()


def newest():
    """One interpreter for tests that do not depend on the version."""
    return newest_of(chosen())


def newest_of(items):
    usual = [item for item in items if not item.debug and not item.wrapped
             and not item.free_threaded and not item.command.startswith(UNPACKED)]
    return (usual or items)[-1]
