"""Snapshots of busy threads whose legal stacks are all known: none may be wrong."""
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from chainlaw import Law, Tally
from harness import BIN, ENV

SNAPSHOTS = 150


def take(pid, law, count, *options, every=0):
    tally = Tally(law)
    command = [BIN, str(pid), "backtrace", "-a", "-f", "json", "-w", str(every), "--count",
               str(count)]
    tool = subprocess.Popen(command + list(options), stdout=subprocess.PIPE, env=ENV)
    for line in tool.stdout:
        tally.add(json.loads(line.decode()))
    tool.stdout.close()
    assert tool.wait() == 0
    assert tally.snapshots == count
    assert tally.stacks == 8 * count
    return tally


@pytest.fixture(scope="module")
def busy(shared, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("chains") / "program.py")
    target = shared("chains.py", path)
    return target.pid, Law(path)


def test_no_snapshot_is_wrong(busy):
    depths, rounds = set(), 0
    while len(depths) <= 3:  # threads that move on, however seldom they may
        tally = take(*busy, SNAPSHOTS)
        assert tally.wrong == 0, tally.examples[:5]
        assert tally.torn <= 0.02 * tally.stacks
        depths, rounds = depths | tally.depths, rounds + 1
        assert rounds <= 10


def test_without_a_pause_torn_is_marked(busy):
    tally = take(*busy, SNAPSHOTS, "--no-pause")
    assert tally.wrong == 0, tally.examples[:5]


def test_whole_process_paused(busy):
    """Torn is then only a thread that was stopped between two steps of a call."""
    # So that it has moved on when it is stopped again, also where others want the CPU, too.
    tally = take(*busy, SNAPSHOTS, "--pause", every=0.01)
    assert tally.wrong == 0, tally.examples[:5]
    assert tally.torn <= 0.01 * tally.stacks


def test_native_frames_keep_the_law(busy):
    tally = take(*busy, SNAPSHOTS // 3, "-n")
    assert tally.wrong == 0, tally.examples[:5]


def test_two_tools_at_once(busy):
    """Each waits while the other one holds a thread."""
    count = SNAPSHOTS // 3
    with ThreadPoolExecutor(2) as pool:
        tallies = list(pool.map(lambda _: take(*busy, count, "-n"), range(2)))
    for tally in tallies:
        assert tally.wrong == 0, tally.examples[:5]
        assert tally.torn <= 0.02 * tally.stacks
