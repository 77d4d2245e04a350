"""
What the program's own tables cost a call: rows(quick) for the table of run.py. Once with an agent
that writes, once without one, each beside a call that does nothing; on every interpreter that is
there, since the ways to call C differ.
"""
import json
import os
import subprocess
import sys
import tempfile

import measure
from measure import harness

import interpreters  # noqa: E402  (its folder is put on the path by measure)
import package  # noqa: E402

BAR_NS = 500
CODE = """
import json, sys, timeit
import probing
table = probing.table("bench", {"step": int, "loss": float, "phase": str})
def nothing(*args, **named): pass
STATEMENTS = {
    "nothing": "nothing(1, 0.5, 'train')",
    "append": "table.append(1, 0.5, 'train')",
    "append, by name": "table.append(step=1, loss=0.5, phase='train')",
    "span": "with probing.span('step'): pass",
    "span, 2 attributes": "with probing.span('step', n=1, kind='x'): pass",
    "event": "probing.event('epoch')",
    "event, 1 attribute": "probing.event('epoch', n=1)",
}
rounds = int(sys.argv[1])
def measure():
    # Short runs and many: on a busy machine some of them are not disturbed.
    return {name: min(timeit.repeat(code, globals=globals(), number=500, repeat=rounds)) / 5e-7
            for name, code in STATEMENTS.items()}
off = measure()
probing.enable()
on = measure()
probing.disable()
print(json.dumps([off, on]))
"""


def ask(interpreter, folder, rounds):
    """Nanoseconds of each statement: without an agent, with one."""
    env = dict(harness.ENV, PYTHONPATH=folder)
    run = subprocess.run([interpreter.command, "-c", CODE, str(rounds)], env=env, timeout=300,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if run.returncode:
        raise RuntimeError(run.stderr.decode())
    return json.loads(run.stdout.decode())


def chosen(quick):
    found = [item for item in interpreters.chosen()
             if item.minor >= (3, 6) and not item.wrapped and not item.debug]
    wanted = {item.minor: item for item in found if not quick or item.minor == (3, 11)}
    return list(wanted.values())


def lines(interpreter, folder, rounds):
    off, on = ask(interpreter, folder, rounds)
    for name in on:
        if name == "nothing":
            continue
        note = "a call that does nothing %.0f; without an agent %.0f" % (on["nothing"], off[name])
        bar = None if "attribute" in name else BAR_NS
        yield ("%s, %s" % (name, ".".join(map(str, interpreter.minor))),
               "%d ns" % bar if bar else "", "%.0f ns" % on[name], "",
               None if bar is None else on[name] <= bar, note)


def rows(quick):
    """Lines for the table: what, at most, probing, other, does it hold, note."""
    if not os.path.exists(os.path.join(os.path.dirname(measure.tool_path()), "libprobing.so")):
        yield ("tables of the program", "", "built without the agent", "", None)
        return
    with tempfile.TemporaryDirectory() as place:
        folder = package.make(place)
        for interpreter in chosen(quick):
            yield from lines(interpreter, folder, 100 if quick else 1000)


if __name__ == "__main__":
    for found in rows("--quick" in sys.argv):
        print(*found, sep=" | ")
