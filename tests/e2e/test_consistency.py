"""Snapshots of busy threads whose legal stacks are all known: none may be wrong."""
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from chainlaw import Law, Tally
from harness import BIN, ENV

SNAPSHOTS = 150
CHANGED = "<changed while it was read>"


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


@pytest.mark.few
def test_whole_process_paused(busy):
    """Torn is then only a thread that was stopped between two steps of a call."""
    # So that it has moved on when it is stopped again, also where others want the CPU, too.
    tally = take(*busy, SNAPSHOTS, "--pause", every=0.01)
    assert tally.wrong == 0, tally.examples[:5]
    assert tally.torn <= 0.01 * tally.stacks


@pytest.mark.few
def test_native_frames_keep_the_law(busy):
    tally = take(*busy, SNAPSHOTS // 3, "-n")
    assert tally.wrong == 0, tally.examples[:5]


@pytest.mark.alone
@pytest.mark.few
def test_two_tools_at_once(busy):
    """Each waits while the other one holds a thread; torn, and said so, where CPUs are short."""
    count = SNAPSHOTS // 3
    torn = []
    while not torn or torn[-1] > 0.02:
        with ThreadPoolExecutor(2) as pool:
            tallies = list(pool.map(lambda _: take(*busy, count, "-n"), range(2)))
        for tally in tallies:
            assert tally.wrong == 0, tally.examples[:5]
        torn.append(max(tally.torn / tally.stacks for tally in tallies))
        assert len(torn) < 4, torn


def read_variables(pid, *options):
    """The variables of `go` in each frame, outermost first, of some looks."""
    command = [BIN, str(pid), "backtrace", "-l", "-f", "json", "-w", "0.002", "--count",
               str(SNAPSHOTS // 3)] + list(options)
    answer = subprocess.run(command, stdout=subprocess.PIPE, env=ENV, check=True)
    for line in answer.stdout.decode().splitlines():
        thread, = json.loads(line)["threads"]
        if not thread.get("torn"):
            yield [frame["locals"] for frame in reversed(thread["frames"])
                   if frame["func"] == "go"]


def count_unknown(stack):
    """Of the variables of a stack; every other one is that of its frame."""
    unknown = 0
    for deep, values in enumerate(stack):
        name = "'%s %d'" % (values["loop"].strip("'"), deep)
        right = {"deep": str(deep), "name": name, "filled": "[%s, %s, %s]" % (name, name, name)}
        for variable in set(right) & set(values):
            if CHANGED in (values[variable], values["loop"]):
                unknown += 1
            else:
                assert values[variable] == right[variable], (variable, deep, stack)
    return unknown


@pytest.mark.parametrize("options", [[], ["--no-pause"], ["--pause"]], ids=" ".join)
def test_variables_are_of_their_frame(shared, options):
    """What a frame has let go of is soon an object of another call."""
    frames = unknown = rounds = 0
    while frames < SNAPSHOTS:  # a thread that gets on, however seldom it may
        for stack in read_variables(shared("passing.py").pid, *options):
            frames += len(stack)
            unknown += count_unknown(stack)
        rounds += 1
        assert rounds <= 20
    assert "--no-pause" in options or unknown <= 0.05 * frames, (frames, unknown)
