"""
How tests wait: for what they expect, up to one generous limit, which is reached only when something
is wrong. PROBING_TEST_PATIENCE=4 makes it four times as long, for a machine with much else to do.
"""
import os
import time

SCALE = float(os.environ.get("PROBING_TEST_PATIENCE") or 1)
SECONDS = 120 * SCALE


def once(look, good=bool, seconds=SECONDS):
    """The first answer that is good, or the last one when the time is up."""
    end = time.monotonic() + seconds
    while True:
        answer = look()
        if good(answer) or time.monotonic() > end:
            return answer
        time.sleep(0.02)


def until(look, good=bool, seconds=SECONDS):
    """The first answer that is good; it must come."""
    answer = once(look, good, seconds)
    assert good(answer), "did not happen in %d s: %r" % (seconds, answer)
    return answer


def passes(check, seconds=SECONDS):
    """check() until it does not fail; what it returns."""
    end = time.monotonic() + seconds
    while True:
        try:
            return check()
        except (AssertionError, LookupError, ValueError):
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def meanwhile(seconds):
    """For what must not happen: it has this long."""
    time.sleep(seconds)
