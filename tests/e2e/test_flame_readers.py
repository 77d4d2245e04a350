"""Files of flamegraph, read by the programs they are made for."""
import base64
import json
import os
import re
import shutil
import subprocess
import time

import pytest

import browsing
import harness
import interpreters

harness.RESTLESS.update({"shares.py"})

PACKAGES = os.path.join(browsing.WEB, "node_modules")
FIREFOX = os.path.join(PACKAGES, "@firefox-devtools", "profiler-cli", "dist")
SPEEDSCOPE = os.path.join(PACKAGES, "speedscope", "dist", "release", "index.html")
ENDINGS = ["gecko.json", "speedscope.json", "trace.json", "collapsed", "pb", "pftrace"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """One recording in each format: {ending: path}."""
    folder = tmp_path_factory.mktemp("readers")
    target = harness.Script(interpreters.newest(), "shares.py")
    made = {}
    try:
        for ending in ENDINGS:
            made[ending] = str(folder / ("shares." + ending))
            answer = harness.probing(target.pid, "fg", "-d", "0.7", "-o", made[ending])
            assert answer.returncode == 0, answer.stderr
    finally:
        target.stop()
    return made


def check_shares(shares):
    """By function, of the main thread, in per cent; busy machines shift them."""
    assert 55 < shares["burn"] < 85 and 15 < shares["rest"] < 45, shares


class Firefox:
    """The Firefox Profiler's own command line, with a home of its own."""

    def __init__(self, home):
        self.env = dict(os.environ, HOME=str(home))
        self.tool = os.path.join(PACKAGES, ".bin", "profiler-cli")

    def __call__(self, *words):
        return subprocess.run([browsing.NODE, self.tool] + list(words), env=self.env, timeout=60,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, encoding="utf-8")

    def load(self, path):
        """Its daemon has half a second to come up, which a busy machine does not always give."""
        end = time.monotonic() + 60
        while True:
            answer = self("load", path)
            if answer.returncode == 0 or time.monotonic() > end:
                return answer
            time.sleep(1)


@pytest.mark.skipif(not os.path.exists(FIREFOX), reason="no profiler-cli: tools/setup page")
def test_firefox_profiler(files, tmp_path):
    firefox = Firefox(tmp_path)
    answer = firefox.load(files["gecko.json"])
    assert answer.returncode == 0, answer
    try:
        said = json.loads(firefox("thread", "functions", "--json").stdout)
        assert said["friendlyThreadName"] == "MainThread", said
        check_shares({one["name"]: one["selfPercentage"] for one in said["functions"]})
        info = firefox("profile", "info").stdout
        assert "shares.py" in info and re.search(r"MainThread \[tid \d+\] - [1-9]", info), info
    finally:
        firefox("stop", "--all")


@browsing.needed
@pytest.mark.skipif(not os.path.exists(SPEEDSCOPE), reason="no speedscope: tools/setup page")
@pytest.mark.parametrize("ending", ["speedscope.json", "collapsed", "pb", "trace.json"])
def test_speedscope(files, tmp_path, ending):
    """Its page, told what to load as its own command line does, lists the functions."""
    load = tmp_path / "load.js"
    with open(files[ending], "rb") as file:
        data = file.read()
    load.write_text("speedscope.loadFileFromBase64(%s, %s)" % (
        json.dumps(os.path.basename(files[ending])),
        json.dumps(base64.b64encode(data).decode())))
    browser = browsing.Browser()
    try:
        page = browser.page()
        page.open("file://%s#localProfilePath=%s" % (SPEEDSCOPE, load))
        page.wait("document.title !== 'speedscope'")
        assert "hares" in page.js("document.title"), page.js("document.title")
        page.press("3")  # the table of functions
        page.wait("/burn/.test(document.body.innerText)")
        text = page.text("body")
        found = re.search(r"\(([\d<>]+)%\)\s+[\d.,]+\w*\s+\((\d+)%\)\s+burn", text)
        assert found and 50 < int(found.group(2)) <= 90, text[:800]
        report = page.report()
        assert not report["errors"], report
    finally:
        browser.stop()


def perfetto_trace(path):
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    trace = protos.Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    return trace


def test_perfetto(files):
    """Perfetto's own messages: numbers lead to texts, slices are nested, samples have stacks."""
    trace = perfetto_trace(files["pftrace"])
    data = trace.packet[0].interned_data
    functions = {one.iid: one.str.decode() for one in data.function_names}
    names = {one.iid: one.name for one in data.event_names}
    frames = {one.iid: one for one in data.frames}
    stacks = {one.iid: [functions[frames[iid].function_name_id] for iid in one.frame_ids]
              for one in data.callstacks}
    tracks = {packet.track_descriptor.uuid: packet.track_descriptor.thread.thread_name
              for packet in trace.packet if packet.HasField("track_descriptor")
              and packet.track_descriptor.HasField("thread")}
    samples, leaf = 0, {}
    for packet in trace.packet:
        if packet.HasField("perf_sample"):
            stack = stacks[packet.perf_sample.callstack_iid]
            assert stack[0] == "<module>", stack
            leaf[stack[-1]] = leaf.get(stack[-1], 0) + 1
            samples += 1
    check_shares({func: 100 * n / samples for func, n in leaf.items()})
    open_slices, spent = {}, {}
    for packet in trace.packet:
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        assert event.track_uuid in tracks, event
        slices = open_slices.setdefault(event.track_uuid, [])
        if event.type == event.TYPE_SLICE_BEGIN:
            slices.append((names[event.name_iid], packet.timestamp))
        else:
            name, since = slices.pop()
            spent[name] = spent.get(name, 0) + packet.timestamp - since
    assert not any(open_slices.values()), open_slices
    whole = max(spent.values())
    burn = sum(ns for name, ns in spent.items() if name.startswith("burn ("))
    assert 0.5 < burn / whole < 0.9 and set(tracks.values()) >= {"MainThread"}, spent


@pytest.mark.skipif(not shutil.which("go"), reason="no go: apt-get install golang-go")
def test_go_tool_pprof(files, tmp_path):
    answer = subprocess.run(["go", "tool", "pprof", "-top", "-unit=ms", files["pb"]],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, encoding="utf-8", timeout=120,
                            env=dict(os.environ, HOME=str(tmp_path), PPROF_TMPDIR=str(tmp_path)))
    assert answer.returncode == 0, answer.stderr
    assert re.search(r"Type: wall", answer.stdout), answer.stdout
    check_shares({row[1]: float(row[0]) for row in re.findall(
        r"^ *\S+ms +([\d.]+)% .* (burn|rest)$", answer.stdout, re.M)})
