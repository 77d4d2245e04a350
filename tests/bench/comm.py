"""
What the collector of python.comm costs a call of all_reduce: rows(quick) for the table of run.py.

    python3 tests/bench/comm.py [--quick] [--device cuda]

A job of one rank, so that nothing but the call is measured; with gloo, or with NCCL on a GPU. The
collector is switched off and on in turn, and turns are compared with their neighbours.
"""
import argparse
import importlib.util
import statistics
import tempfile
import time

import measure
import pace

CALLS = 50
# Where torch keeps its counters is found in looks that are a second apart.
SETTLE, MEASURE = 2.3, 1.0
OFF, ON = ["torch.comm=off"], ["torch.comm=on"]


def turn(job, settings, seconds):
    job.probing("config", *settings)
    time.sleep(SETTLE)
    began = time.time()
    time.sleep(seconds)
    return began, time.time()


def cost(folder, device, options, rounds):
    """Microseconds of a call without the collector, and what it adds."""
    job = pace.Job(measure.tool_path(), folder, "--calls", CALLS, "--device", device,
                   "--seconds", 300, *options)
    try:
        job.probing("inject")
        states = [("off", OFF), ("on", ON)] * rounds + [("off", OFF)]
        turns = [(name,) + turn(job, settings, MEASURE) for name, settings in states]
        times, _ = job.end()
    finally:
        job.kill()
    added = pace.compare(times, turns, "on", "off", pace.WALL, statistics.median, pace.difference)
    return (1000 * pace.pooled(times, turns, "off") / CALLS,
            [1000 * part / CALLS for part in (added.middle, added.low, added.high)])


def rows(quick, device="cpu"):
    if importlib.util.find_spec("torch") is None:
        yield "communication rows", "", "torch is not installed", "", None, ""
        return
    backend = "NCCL" if device == "cuda" else "gloo"
    for what, options in (("waited for", ()), ("asynchronous", ("--later",))):
        pace.say("%s, all_reduce that is %s" % (backend, what))
        with tempfile.TemporaryDirectory() as folder:
            bare, added = cost(folder, device, options, 1 if quick else 6)
        yield ("%s, one all_reduce, %s" % (backend, what), "", "%+.1f us" % added[0], "", None,
               "bare %.1f us; %+.1f to %+.1f" % (bare, added[1], added[2]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    for row in rows(given.quick, given.device):
        print(" | ".join(str(cell) for cell in row), flush=True)
