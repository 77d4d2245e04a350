"""
The rule for tests that run a second time, for ctest's and pytest's alike: one that failed runs once
more, alone, when the others have ended. If it passes then, the run is green and names it at its end
as FLAKY, which is a fault of the product or of the test. Too many of them are no accident, and a
target that died or rows that were lost once are once too often.
"""
import os
import re

AT_MOST = 5  # tests of a whole run
NO_SECOND = re.compile(r"storm|kill|safety|hostile|fuzz|server_dies")


def allowed(failed, before=0):
    """Those of the failed tests that may run again: all or none; before: how many others have."""
    if (os.environ.get("PROBING_TEST_STRICT") or before + len(failed) > AT_MOST
            or any(NO_SECOND.search(name) for name in failed)):
        return []
    return list(failed)


def lines(flaky):
    """What is said at the very end, of {name: first failure}."""
    if not flaky:
        return []
    return ["FLAKY %s: %s" % (name, why or "failed") for name, why in flaky.items()] + [
        "%d flaky: each passed the second time, alone" % len(flaky)]
