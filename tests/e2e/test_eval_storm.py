"""Programs that print, log, show progress, rebind their streams, fork and wait, under a storm of
evaluations, prompts, profiles, injections and ejections: afterwards each is alive, and its output
is whole. On every interpreter, debug builds too, which check what they are given.

PROBING_TEST_STORM=100 makes it a hundred times as long: 10,000 evaluations, 1,000 profiles and
1,000 injections of each program on each interpreter.
"""
import importlib.util
import os
import sys
import threading

import pytest

import harness
import interpreters
from injecting import eject, inject
from storms import Gone, Storm, at_once, evaluate, evaluate_all, prompt

FACTOR = int(os.environ.get("PROBING_TEST_STORM", "1"))
EVALS, LIVES, PROFILES = 100 * FACTOR, 10 * FACTOR, 10 * FACTOR


def come_and_go(target, faults):
    """Leaves and comes back all the time; others ask meanwhile."""
    try:
        for _ in range(LIVES):
            eject(target.pid)
            inject(target.pid)
    except Exception as error:
        faults.append(repr(error))


def ask_through_it(target, over, asked):
    """Questions to an agent that may be gone at any moment: none is fine, a wrong one is not."""
    while not over.is_set():
        wire = None
        try:
            wire = target.wire()
            for number in range(1, 20):
                evaluate(wire, number, leaving=True)
                asked.append(number)
        except (OSError, EOFError, Gone):
            pass
        finally:
            if wire:
                wire.close()


def under_way(target):
    """Injections and ejections in the midst of evaluations and of the prompt's lines."""
    faults, asked, over = [], [], threading.Event()

    def one():
        try:
            ask_through_it(target, over, asked)
        except Exception as error:
            faults.append(repr(error))

    asking = [threading.Thread(target=one) for _ in range(2)]
    for thread in asking:
        thread.start()
    come_and_go(target, faults)
    over.set()
    for thread in asking:
        thread.join()
    assert not faults and asked, (faults, asked, target.said())


WORDS = {"many": {"print", "log"}, "alone": {"rebind"}, "bars": {"print", "log"}}
PYTHONS = [item for item in interpreters.found() if item in interpreters.chosen() or item.debug]


@pytest.mark.parametrize("kind", sorted(WORDS))
@pytest.mark.parametrize("python", [item for item in PYTHONS if item.minor >= (3, 6)],
                         ids=lambda item: item.label)
def test_storm(python, start, kind):
    target = start(Storm, python.command, kind)
    inject(target.pid)
    at_once(target, 2, EVALS)
    target.well()
    prompt(target, EVALS // 10)
    target.well()
    under_way(target)
    target.well()
    evaluate_all(target, 1)
    seen = target.end()
    assert set(seen) == WORDS[kind]
    assert all(number > 100 for number in seen.values())


@pytest.mark.skipif(not (importlib.util.find_spec("tqdm") and importlib.util.find_spec("rich")),
                    reason="no tqdm, no rich")
def test_storm_under_displays(start):
    """The real ones, where they are installed."""
    target = start(Storm, sys.executable, "shown")
    inject(target.pid)
    at_once(target, 2, EVALS)
    under_way(target)
    evaluate_all(target, 1)
    assert target.end()["print"] > 10


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
