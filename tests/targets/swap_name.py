"""A hostile user: one name is by turns a file and a link to somebody else's, a million times."""
import ctypes
import os
import sys

FILE, LINK = sys.argv[1].encode(), (sys.argv[1] + ".link").encode()
EXCHANGE = 2
AT_FDCWD = -100

open(FILE, "w").close()
os.symlink(sys.argv[2], LINK)
swap = ctypes.CDLL(None).renameat2
print("ready", os.getpid(), flush=True)
while True:
    swap(AT_FDCWD, FILE, AT_FDCWD, LINK, EXCHANGE)
    if not os.path.lexists(FILE):  # what was put there took the link's place
        open(FILE, "w").close()
