"""
Eight busy threads whose legal stacks are all known.

Writes a program to the path in argv[1] and runs it. In that program every
function is named for the way to it, and is called from exactly one line of
exactly one caller: t3_pg can only be called by t3_p. The last letter tells how:
p plain call, g generator, m through map (C), k through sorted's key (C).
A stack with any other pair of neighbours is wrong.
argv[2], where given, is the switch interval in seconds.
"""
import os
import sys
import threading
import time

THREADS = 8
DEPTH = 5
CALLS = {
    "p": "    {0}(n)",
    "g": "    for _ in {0}(n): pass",
    "m": "    list(map({0}, (n,)))",
    "k": "    sorted((n,), key={0})",
}


def emit(name, kinds, depth, out):
    """One function, then its callees; each gets the kinds in another order."""
    out.append("def %s(n):" % name)
    out.append("    n = n + 1")
    if depth == 0:
        out.append("    n = n * 3 % 7")
    else:
        for kind in kinds[:3]:
            out.append(CALLS[kind].format(name + kind))
            out.append("    n = n - 1")
    out.append("    yield n" if name[-1] == "g" else "    return n")
    if depth:
        for kind in kinds[:3]:
            emit(name + kind, kinds[1:] + kinds[:1], depth - 1, out)


def program():
    out = []
    for number in range(THREADS):
        root = "t%d_" % number
        out.append("def %sroot():" % root)
        out.append("    while True:")
        out.append("        %sp(0)" % root)
        kinds = list("pgmk")
        emit(root + "p", kinds[number % 4:] + kinds[:number % 4], DEPTH, out)
    return "\n".join(out) + "\n"


def main():
    path = sys.argv[1]
    with open(path, "w") as file:
        file.write(program())
    if len(sys.argv) > 2:
        sys.setswitchinterval(float(sys.argv[2]))
    space = {}
    with open(path) as file:
        exec(compile(file.read(), path, "exec"), space)
    for number in range(THREADS):
        root = space["t%d_root" % number]
        thread = threading.Thread(target=root, name="chain-%d" % number)
        thread.daemon = True
        thread.start()
    time.sleep(0.2)
    os.write(1, ("ready %d\n" % os.getpid()).encode())
    while True:
        time.sleep(1000)


main()
