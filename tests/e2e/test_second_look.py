"""`make test` itself: what failed once is named at the end, what failed twice is red."""
import glob
import json
import os
import shutil
import subprocess
import sys

import pytest

import harness

TESTS = os.path.join(harness.ROOT, "tests")

# Fails the first time that it is run in a folder.
ONCE = """
import os
def test_%s():
    first = not os.path.exists(__file__ + ".%s")
    open(__file__ + ".%s", "w").close()
    assert not first, "the first time"
"""

# Knows tests by name; what each says the first time and then is in the file `script` beside it.
CTEST = """#!%s
import json, os, re, sys
here = os.path.dirname(sys.argv[0])
with open(here + "/script") as file:
    script = json.load(file)
asked = sys.argv[sys.argv.index("-R") + 1] if "-R" in sys.argv else "."
names = [name for name in script if re.search(asked, name)]
failed = [name for name in names if script[name].pop(0) == "fail"]
with open(here + "/script", "w") as file:
    json.dump(script, file)
with open(sys.argv[sys.argv.index("--output-junit") + 1], "w") as file:
    file.write("<testsuite>" + "".join(
        '<testcase name="%%s" status="%%s"><system-out>begins\\nx.c:3: error: Failure!\\nends'
        '</system-out></testcase>' %% (name, "fail" if name in failed else "run")
        for name in names) + "</testsuite>")
sys.exit(8 if failed else 0)
"""


@pytest.fixture
def tree(tmp_path):
    """A tree that has the programs that run tests, and no tests."""
    tests = tmp_path / "tree" / "tests"
    shutil.copytree(os.path.join(TESTS, "unit"), str(tests / "unit"),
                    ignore=shutil.ignore_patterns("*.c", "*.h"))
    (tests / "e2e").mkdir()
    for path in glob.glob(os.path.join(TESTS, "e2e", "*")):
        if os.path.isfile(path) and not os.path.basename(path).startswith("test_"):
            shutil.copy(path, str(tests / "e2e"))
    shutil.copy(os.path.join(TESTS, "second_look.py"), str(tests))
    return tmp_path / "tree"


def e2e(tree, *words, **tests):
    """Runs end-to-end tests of this text: (exit status, the closing lines)."""
    for name, text in tests.items():
        (tree / "tests" / "e2e" / ("test_%s.py" % name)).write_text(text)
    answer = subprocess.run(
        [sys.executable, str(tree / "tests" / "e2e" / "run.py")] + list(words)
        + ["test_%s.py" % name for name in tests], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", timeout=300,
        env=dict(os.environ, PROBING_TEST_ONLY="none", PROBING_TEST_WORKERS="1"))
    said = answer.stdout.splitlines()
    closing = [at for at, line in enumerate(said) if line.startswith("end-to-end tests: ")]
    assert closing, answer.stdout
    return answer.returncode, said[closing[-1] + 1:]


def test_of_pytest(tree):
    file = tree / "before"
    file.write_text('{"unit/base/test_x": "x.c:3: error: Failure!"}')
    assert e2e(tree, "--flaky", str(file), one=ONCE % ("a", "a", "a"),
               two="def test_b():\n    pass\n") == (0, [
                   "2 passed, 0 failed, 0 skipped",
                   "FLAKY unit/base/test_x: x.c:3: error: Failure!",
                   "FLAKY test_one.py::test_a: AssertionError: the first time",
                   "2 flaky: each passed the second time, alone"])


def test_of_pytest_twice(tree):
    """The run before it left no word of what was flaky."""
    assert e2e(tree, "--flaky", str(tree / "nothing"), one=ONCE % ("a", "a", "a"),
               two="def test_b():\n    assert 1 == 2\n") == (1, [
        "1 passed, 1 failed, 0 skipped",
        "FLAKY test_one.py::test_a: AssertionError: the first time",
        "1 flaky: each passed the second time, alone"])


@pytest.mark.parametrize("name, count", [("many", 6), ("a_storm", 1), ("node_kill", 1)])
def test_no_second_look(tree, name, count):
    """Too many are no accident; where a target died, once is too often."""
    text = "".join(ONCE % (("t%d" % at,) * 3) for at in range(count))
    status, said = e2e(tree, **{name: text})
    assert (status, said) == (1, ["0 passed, %d failed, 0 skipped" % count])


@pytest.mark.parametrize("script, status, flaky", [
    ({"unit/a": ["pass"]}, 0, []),
    ({"unit/a+b": ["fail", "pass"], "unit/c": ["pass"]}, 0, ["unit/a+b"]),
    ({"unit/a": ["fail", "pass"], "unit/c": ["fail", "fail"]}, 1, ["unit/a"]),
    ({"fuzz/fuzz_elf": ["fail", "pass"]}, 1, []),
    ({"unit/%d" % at: ["fail", "pass"] for at in range(6)}, 1, []),
])
def test_of_ctest(tree, script, status, flaky):
    (tree / "build").mkdir()
    (tree / "bin").mkdir()
    (tree / "bin" / "ctest").write_text(CTEST % sys.executable)
    (tree / "bin" / "ctest").chmod(0o755)
    (tree / "bin" / "script").write_text(json.dumps(script))
    answer = subprocess.run(
        [sys.executable, str(tree / "tests" / "unit" / "run.py"), "dev", "2", str(tree / "out")],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=60,
        env=dict(os.environ, PATH="%s:%s" % (tree / "bin", os.environ["PATH"])))
    assert answer.returncode == status
    assert json.loads((tree / "out").read_text()) == {
        name: "x.c:3: error: Failure!" for name in flaky}
