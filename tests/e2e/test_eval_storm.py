"""Programs that print, log, rebind their streams, fork and wait, under a storm of evaluations,
prompts, profiles, injections and ejections: afterwards each is alive, and its output is whole.

PROBING_TEST_STORM=100 makes it a hundred times as long: 10,000 evaluations, 1,000 profiles and
1,000 injections of each program on each interpreter.
"""
import importlib.util
import os
import re
import sys
import threading
import time

import pytest

import harness
from agents import COMPLETE, Probed, Wire
from injecting import eject, has_agent, inject

pytestmark = pytest.mark.skipif(not has_agent(), reason="built without the agent")

FACTOR = int(os.environ.get("PROBING_TEST_STORM", "1"))
EVALS, LIVES, PROFILES = 100 * FACTOR, 10 * FACTOR, 10 * FACTOR
OK, EXCEPTION = 0, 1
REPL = 4


class Lines(threading.Thread):
    """Reads along: every line is `WORD NUMBER`, numbers of a word without a gap."""

    def __init__(self, pipe):
        super().__init__(daemon=True)
        self.pipe, self.last, self.strange = pipe, {}, []
        self.start()

    def run(self):
        for line in self.pipe:
            found = re.match(rb"(print|log|rebind|step) (\d+)\n$", line)
            word = found and found.group(1)
            if line.startswith(b"USDT:"):  # torch's profiler about itself
                continue
            if found and int(found.group(2)) == self.last.get(word, 0) + 1:
                self.last[word] = int(found.group(2))
            else:
                self.strange.append(line)


class Storm(harness.Target):
    """tests/targets/storm.py, its output read along."""

    def __init__(self, command, kind):
        super().__init__([command, "-W", "ignore", os.path.join(harness.TARGETS, "storm.py"), kind])
        self.readers = [Lines(self.process.stdout), Lines(self.process.stderr)]

    def home(self):
        return Probed.home(self)

    def wire(self):
        return Wire(self.home())

    def well(self):
        """It goes on, and nothing was wrong so far."""
        assert self.process.poll() is None, self.said()
        assert not any(reader.strange for reader in self.readers), self.said()

    def said(self):
        """For a failure: its status, and the first lines that should not be there."""
        time.sleep(0.2)
        return self.process.poll(), [reader.strange[:20] for reader in self.readers]

    def end(self):
        """Lets it end by itself, and looks at all it has said."""
        self.well()
        harness.probing(self.pid, "eval", "finish = True")
        assert self.process.wait(60) == 7, self.said()
        for reader in self.readers:
            reader.join(10)
        assert not any(reader.strange for reader in self.readers), self.said()
        return {word.decode(): number for reader in self.readers
                for word, number in reader.last.items()}

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


SLOW = "sum(range(300000))"
CASES = [
    (SLOW, 0, OK, b"44999850000\n", b""),
    ("print('out', 1); import sys; print('err', file=sys.stderr)", 0, OK, b"out 1\n", b"err\n"),
    ("import pprint, time; pprint.pprint([1]); time.sleep(0); sys.stdout.write('x\\n') and None",
     0, OK, b"[1]\nx\n", b""),
    ("1/0", 0, EXCEPTION, b"", None),
    ("import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as place:\n"
     "    print('hidden'); sum(range(100000))\nplace.getvalue()", 0, OK, b"'hidden\\n'\n", b""),
    ("print(7)", REPL, OK, b"7\n", b""),
    ("import threading, logging; logging.getLogger('other').warning('w')", 0, OK, b"", b"w\n"),
    ("[print(i) for i in range(300)] and None", 0, OK,
     "".join("%d\n" % i for i in range(300)).encode(), b""),
]


def evaluate(wire, number):
    """One question, and that its answer is exact."""
    if number % 10 == 9:
        assert wire.ask(COMPLETE, b"fin", number)[1] == b"finally\nfinish\n"
        return
    code, flags, result, out, err = CASES[number % len(CASES)]
    wire.eval(code, flags, number=number)
    answer = wire.answer(number)
    assert answer[:2] == (result, out), (code, answer)
    assert err is None or answer[2] == err, (code, answer)


def evaluate_all(target, share):
    """A client's part of the evaluations; what went wrong, if anything."""
    wire = target.wire()
    wire.socket.settimeout(60)
    try:
        for number in range(1, share + 1):
            evaluate(wire, number)
    finally:
        wire.close()


def at_once(target, clients):
    faults = []

    def one():
        try:
            evaluate_all(target, EVALS // clients)
        except Exception as error:
            faults.append(repr(error))

    threads = [threading.Thread(target=one) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, (faults, target.said())


@pytest.mark.parametrize("kind", ["many", "alone"])
def test_storm(py, start, kind):
    if py.minor < (3, 6):
        pytest.skip("the agent is for 3.6 and later")
    target = start(Storm, py.command, kind)
    inject(target.pid)
    at_once(target, 2)
    target.well()
    for _ in range(LIVES):
        eject(target.pid)
        inject(target.pid)
        evaluate_all(target, 1)
        target.well()
    seen = target.end()
    assert set(seen) == ({"print", "log"} if kind == "many" else {"rebind"})
    assert all(number > 100 for number in seen.values())


@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="no torch")
def test_storm_of_profiles(start, tmp_path):
    target = start(Storm, sys.executable, "torch")
    inject(target.pid)
    for number in range(PROFILES):
        trace = tmp_path / str(number)
        answer = harness.probing(target.pid, "profile", "-n", "1", "-o", trace)
        assert answer.returncode == 0, (answer.stderr, target.said())
        trace.unlink()
        evaluate_all(target, 3)
        target.well()
    assert set(target.end()) == {"step"}
