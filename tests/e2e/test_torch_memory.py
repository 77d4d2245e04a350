"""Memory in tensors, by call: against sizes that the program itself knows."""
import os
import subprocess

import pytest

import harness
import patience
import rings
import torches
from harness import probing
from nodes import node  # noqa: F401: a fixture
from torches import Loop, of

SCRIPT = "torch_memory.py"
# malloc rounds a large block up to pages, and has a little for itself.
SLACK = 0.02

pytestmark = pytest.mark.skipif(not torches.pythons(), reason="no interpreter with torch")


@pytest.fixture(scope="module")
def loop():
    target = torches.injected(SCRIPT)
    yield target
    target.stop()


@pytest.fixture(scope="module", params=["lazy", "now"])
def device(request, tmp_path_factory):
    """
    A driver and an allocator that are made up, as far as the agent asks them; the table of imports
    is filled when a function is first called, or at once and made read-only.
    """
    made = tmp_path_factory.mktemp("device")
    lib = os.path.join(os.path.dirname(torches_lib()), "lib")
    paths = [str(made / "libcuda.so.1"), str(made / "libc10_cuda.so")]
    flags = ["cc", "-shared", "-fPIC", "-o"]
    subprocess.run(flags + [paths[0], "-Wl,-soname,libcuda.so.1",
                            os.path.join(harness.TARGETS, "fake_cuda.c")], check=True)
    subprocess.run(flags + [paths[1], "-Wl,-soname,libc10_cuda.so",
                            os.path.join(harness.TARGETS, "fake_allocator.c"), "-L" + lib, "-lc10",
                            "-Wl,--allow-shlib-undefined", "-Wl,-rpath," + lib,
                            "-Wl,-z,relro,-z," + request.param], check=True)
    target = Loop(SCRIPT, args=paths)
    assert probing(target.pid, "inject", "-D", "torch.budget=100").returncode == 0
    target.await_collector()
    yield target
    target.stop()


def torches_lib():
    return subprocess.run([torches.python(), "-c", "import torch; print(torch.__file__)"],
                          stdout=subprocess.PIPE, check=True).stdout.decode().strip()


def deltas(trace, module):
    return [row["allocated_delta"] for row in of(trace, module)]


def test_each_call_has_its_own(loop):
    book, trace, _ = loop.anew("leaking")
    for module, made in (("big", 16), ("leak", 5), ("small", 1)):
        found = deltas(trace, module)
        assert len(found) >= len(book) - 1
        # What came before goes when the next one has been made, which is after its call.
        assert all(made - SLACK < delta < made + SLACK for delta in found), (module, found)
    # All that stays is in the last row of the model, and goes with its graph.
    whole = deltas(trace, "Net")
    assert all(3 - SLACK < delta < 3 + SLACK for delta in whole), whole


def test_a_leak_is_seen_step_by_step(loop):
    book, trace, _ = loop.anew("leaking")
    for name, stage in (("Net", "forward"), ("big", "forward"), ("SGD", "optimizer")):
        rows = of(trace, name, stage)
        base = rows[0]["allocated"] - book[rows[0]["step"]]
        assert all(abs(row["allocated"] - base - book[row["step"]]) < 0.2 for row in rows), rows
    # Ten modules are not ten equal rows.
    step = max(row["step"] for row in trace)
    assert len({round(row["allocated"]) for row in trace if row["step"] == step}) > 3
    assert all(row["max_allocated"] >= row["allocated"] for row in trace)


def test_threads_are_told_apart(loop):
    _, trace, _ = loop.anew("threads")
    found = sorted(round(delta) for delta in deltas(trace, "0"))
    assert found.count(4) + found.count(9) == len(found) >= 40, found


def test_switched_while_tensors_come_and_go(loop):
    loop.value("job = 'storm'")
    while loop.value("job is None") == "False\n":
        for state in ("off", "on"):
            assert probing(loop.pid, "config", "torch.collect=" + state).returncode == 0
    loop.await_collector()
    book, trace, _ = loop.anew("leaking")
    assert len(book) == 60 and all(abs(delta - 16) < SLACK for delta in deltas(trace, "big"))


def test_cuda_as_its_allocator_reports(device):
    book, trace, _ = device.run("device")
    for module, made in (("0", 6), ("1", 0), ("2", -5), ("Sequential", 1)):
        assert set(deltas(trace, module)) == {made}, (module, deltas(trace, module))
    for row in of(trace, "2"):
        assert row["allocated"] == book[row["step"]], row
        assert row["cached"] >= row["allocated"] and row["max_allocated"] >= row["allocated"]


def test_an_allocator_that_does_not_report(device):
    """Nothing is said of a call, rather than something wrong, and why."""
    device.value("gpu.fake_silent(1)")
    for _ in range(3):
        device.run("device")
    _, trace, _ = device.run("device")
    last = of(trace, "2")[-1]
    assert last["allocated"] is None and last["allocated_delta"] is None
    patience.until(lambda: "does not fit its statistics" in rings.lines(device.home(), "status")[
        "collector.torch"])
    # Not even where its statistics are the same after each step.
    device.anew("level")
    for _ in range(3):
        device.run("level")
    _, trace, _ = device.run("level")
    last = of(trace, "2")[-1]
    assert last["allocated"] is None and last["allocated_delta"] is None
    patience.until(lambda: "does not report to us" in rings.lines(device.home(), "status")[
        "collector.torch"])
    # And when nobody counts, torch is as it was.
    assert probing(device.pid, "eject").returncode == 0
    device.value("gpu.fake_silent(0); job = 'device'")
    patience.until(lambda: device.value("job is None") == "True\n")


def grown(node, job):
    """What the view says of one job that runs in a process of its own."""
    target = Loop(SCRIPT)
    try:
        assert node(target.pid, "inject", "-D", "torch.budget=100").returncode == 0
        target.await_collector()
        book = target.run(job)[0]
        return book, node.rows("SELECT * FROM memory_growth", target.pid)
    finally:
        target.stop()


def test_what_grows(node):
    """What one module keeps, among more that goes: the sum is known, not whose it is."""
    book, found = grown(node, "leaking")
    assert [row["module"] for row in found] == [None]
    assert abs(found[0]["total_mb_per_step"] - 3) < SLACK and found[0]["error_mb"] < SLACK
    assert found[0]["mb_per_step"] == found[0]["total_mb_per_step"]
    assert found[0]["steps"] >= len(book) - 5


def test_nothing_grows(node):
    assert grown(node, "flat") == ([], [])


def test_what_was_made_at_first_is_no_growth(node):
    """A cache that fills up and stays as it is."""
    assert grown(node, "filling") == ([], [])


def test_probes_that_come_again_have_as_much_room():
    """What the first ones left behind is beside it."""
    target = torches.injected(SCRIPT)
    try:
        for _ in range(3):
            target.run("flat")
            ring = rings.rings(target.home(), torches.TRACE)[-1]
            assert ring.capacity == 65536 and not ring.closed
            assert "store.note" not in rings.lines(target.home(), "status")
            assert probing(target.pid, "eject").returncode == 0
            assert probing(target.pid, "inject", "-D", "torch.budget=100").returncode == 0
            target.await_collector()
    finally:
        target.stop()
