"""Programs under a storm (targets/storm.py), and what is asked of them."""
import os
import re
import subprocess
import threading
import time

import harness
import patience
from agents import COMPLETE, Probed, Wire

OK, EXCEPTION, REFUSED, INTERRUPTED = 0, 1, 2, 5
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

    def __init__(self, command, kind, **how):
        super().__init__([command, "-W", "ignore", os.path.join(harness.TARGETS, "storm.py"), kind],
                         **how)
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
        asked = harness.probing(self.pid, "eval", "finish = True")
        # It may have come to its end before the agent could answer.
        assert asked.returncode == 0 or "closed the connection" in asked.stderr, (
            asked.stderr, self.said())
        try:
            assert self.process.wait(patience.SECONDS) == 7, self.said()
        except subprocess.TimeoutExpired:
            stacks = harness.probing(self.pid, "backtrace", "-a", "-n", "-s")
            raise AssertionError("it goes on: %s\n%s%s" % (self.said(), stacks.stdout,
                                                           stacks.stderr))
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
    # In a function: all evaluations share the names of __main__, and several run at a time.
    ("import contextlib, io\ndef hide():\n"
     "    with contextlib.redirect_stdout(io.StringIO()) as place:\n"
     "        print('hidden'); sum(range(100000))\n    return place.getvalue()\nhide()",
     0, OK, b"'hidden\\n'\n", b""),
    ("print(7)", REPL, OK, b"7\n", b""),
    ("import threading, logging; logging.getLogger('other').warning('w')", 0, OK, b"", b"w\n"),
    ("[print(i) for i in range(300)] and None", 0, OK,
     "".join("%d\n" % i for i in range(300)).encode(), b""),
]


class Gone(Exception):
    """The agent is leaving."""


def evaluate(wire, number, leaving=False):
    """One question, and that its answer is exact."""
    if number % 10 == 9:
        answer = wire.ask(COMPLETE, b"fin", number)
        assert answer[1] == b"finally\nfinish\n" or (leaving and answer[0] != OK), answer
        return
    code, flags, result, out, err = CASES[number % len(CASES)]
    wire.eval(code, flags, number=number)
    answer = wire.answer(number)
    if leaving and answer[0] in (REFUSED, INTERRUPTED):
        raise Gone
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


def at_once(target, clients, evals):
    """Several clients that share so many evaluations."""
    faults = []

    def one():
        try:
            evaluate_all(target, evals // clients)
        except Exception as error:
            faults.append(repr(error))

    threads = [threading.Thread(target=one) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, (faults, target.said())


def prompt(target, lines):
    """Lines at a real prompt."""
    answer = subprocess.run([harness.BIN, str(target.pid), "repl"], env=harness.ENV, timeout=600,
                            input=b"len('four')\nprint(_ + 1)\n" * lines,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert answer.returncode == 0, (answer.stderr, target.said())
    assert answer.stdout == b"4\n5\n" * lines
