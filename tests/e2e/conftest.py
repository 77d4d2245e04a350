"""Fixtures of the end-to-end tests: one round per interpreter found on the machine."""
import json
import os
import signal

import pytest

import harness
import interpreters


def pytest_report_header(config):
    lines = ["tool: " + harness.BIN, "interpreters:"]
    for item in interpreters.found():
        note = "" if item in interpreters.readable() else "  (debug build: no stacks)"
        lines.append("  %-9s %s%s" % (item.label, item.command, note))
    if not interpreters.archived():
        lines.append("  (none from %s: the folder is not there, or for another processor)"
                     % os.path.relpath(interpreters.ARCHIVES, interpreters.ROOT))
    return lines


def pytest_sessionstart(session):
    # A shell starts what it runs in the background deaf to Ctrl-C, and nohup to the end of the
    # terminal; so would the tools be.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if not os.access(harness.BIN, os.X_OK):
        pytest.exit("no tool at %s: build it first, or set PROBING_BIN" % harness.BIN, 2)


def pytest_sessionfinish(session):
    harness.remove_stores()


def first_line(report):
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash else report.longreprtext
    return (text.strip().splitlines() or [""])[0][:200]


def pytest_terminal_summary(terminalreporter):
    """For run.py, which adds up what several processes of pytest count."""
    path = os.environ.get("PROBING_TEST_REPORT")
    if not path:
        return
    stats = terminalreporter.stats
    bad = stats.get("failed", []) + stats.get("error", [])
    counts = {"passed": len(stats.get("passed", [])), "failed": len(bad),
              "skipped": len(stats.get("skipped", []))}
    with open(path, "w") as file:
        json.dump({"counts": counts, "failures": {it.nodeid: first_line(it) for it in bad}}, file)


def pytest_collection_modifyitems(config, items):
    left_out = [] if interpreters.ALL else [it for it in items if it.get_closest_marker("long")]
    if left_out:
        items[:] = [it for it in items if it not in left_out]
        config.hook.pytest_deselected(items=left_out)


def pytest_generate_tests(metafunc):
    """Where tests are marked `few`, three interpreters stand for all."""
    if "py" in metafunc.fixturenames:
        few = metafunc.definition.get_closest_marker("few")
        items = interpreters.few() if few else interpreters.chosen()
        metafunc.parametrize("py", items, ids=lambda item: item.label, indirect=True,
                             scope="module")


@pytest.fixture(scope="module")
def py(request):
    """Each interpreter in turn."""
    return request.param


@pytest.fixture(scope="module")
def shared(py):
    """shared(name, *args): a target of this interpreter that the module's tests share."""
    running = {}

    def get(name, *args):
        if (name, args) not in running:
            running[name, args] = harness.Script(py, name, *args)
        return running[name, args]

    yield get
    for target in running.values():
        target.stop()


@pytest.fixture
def start():
    """start(kind, *args, **how): a target of the test's own, ended with it."""
    running = []

    def begin(kind, *args, **how):
        running.append(kind(*args, **how))
        return running[-1]

    begin.running = running
    yield begin
    for target in running:
        target.stop()


@pytest.fixture(scope="session")
def any_py():
    """One interpreter, for tests that do not depend on the version."""
    return interpreters.newest()


@pytest.fixture
def probing():
    """The tool as a function: probing("list", "-f", "json") -> CompletedProcess."""
    return harness.probing
