"""Loads and unloads libraries, and imports modules anew, without end."""
import _ctypes
import importlib
import os
import sys

NAMES = ["json", "decimal", "csv", "sqlite3", "lzma", "bz2", "zlib", "hashlib", "uuid", "heapq"]


def libraries():
    """Extension modules of this interpreter that lie in files."""
    out = []
    for name in ("_json", "_csv", "_heapq", "_struct", "math", "select", "_bisect", "_random"):
        try:
            path = getattr(importlib.import_module(name), "__file__", None)
        except ImportError:
            path = None
        if path and path.endswith(".so"):
            out.append(path)
    return out


def main():
    paths = libraries() or ["libm.so.6"]
    os.write(1, ("ready %d\n" % os.getpid()).encode())
    while True:
        for path in paths:
            _ctypes.dlclose(_ctypes.dlopen(path, 2))
        for name in NAMES:
            for loaded in [key for key in list(sys.modules) if key.split(".")[0] == name]:
                del sys.modules[loaded]
            try:
                importlib.import_module(name)
            except ImportError:
                pass


main()
