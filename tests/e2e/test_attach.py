"""`probing attach`: settings from a file, checked before anything is touched."""
import pytest

import harness


@pytest.fixture
def target(start, any_py):
    target = start(harness.Script, any_py, "simple.py")
    yield target
    harness.probing(target.pid, "eject")


@pytest.fixture
def config(tmp_path):
    def write(text):
        path = tmp_path / "probes.yaml"
        path.write_text(text)
        return path
    return write


def threads(pid):
    return len(harness.states(pid))


def value(pid, key):
    """As an evaluation inside sees it: by asking the agent, not the tool's memory."""
    return harness.probing(pid, "config", key).stdout.split()[-1]


def test_attach(target, config, probing):
    path = config("# probes\nprobing:\n  eval:\n    timeout: 5\n  agent.follow_forks: \"off\"\n")
    answer = probing("attach", target.pid, "--config", path)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout == "Successfully injected probes into process %d\n" % target.pid
    assert value(target.pid, "eval.timeout").endswith("5")
    assert value(target.pid, "agent.follow_forks").endswith("off")


@pytest.mark.parametrize("text", [
    "probing: {eval: {timeout: 5}, agent: {follow_forks: off}}\n",
    "probing:\n  - eval.timeout: 5\n  - agent: {follow_forks: off}\n",
    "x-usual: &usual\n  eval: {timeout: 5}\nprobing:\n  <<: *usual\n  agent.follow_forks: 'off'\n",
])
def test_all_of_yaml(target, config, probing, text):
    answer = probing("attach", target.pid, "--config", config(text))
    assert (answer.returncode, answer.stderr) == (0, "")
    assert value(target.pid, "eval.timeout").endswith("5")
    assert value(target.pid, "agent.follow_forks").endswith("off")


def test_attach_twice(target, config, probing):
    assert probing(target.pid, "attach").returncode == 0
    answer = probing(target.pid, "attach", "-c", config("eval.timeout: 8.5"))
    assert answer.stdout == "Probes are already in process %d; settings applied\n" % target.pid
    assert value(target.pid, "eval.timeout").endswith("8.5")
    answer = probing("attach", target.pid)
    assert answer.stdout == "Probes are already in process %d\n" % target.pid


@pytest.mark.parametrize("text, message", [
    ("eval:\n  timeot: 5\n", "line 2: no setting 'eval.timeot'. Did you mean 'eval.timeout'?"),
    ("probing.weather: 1\n", "line 1: no setting 'weather'. See: probing config"),
    ("eval.timeout: soon\n", "line 1: eval.timeout: 'soon' is not a number from 0.05 to 86400"),
    ("eval.timeout: 5\nprobing.eval.timeout: 6\n", "line 2: 'eval.timeout' is set twice"),
    ("eval:\n  - timeout\n", "line 2: one value is wanted here, not a list"),
    ("eval: {timeout: 5\n",
     "line 2: did not find expected ',' or '}' while parsing a flow mapping"),
    ("eval:\n", "line 1: 'eval' has no value"),
])
def test_mistakes_touch_nothing(target, config, probing, text, message):
    before = threads(target.pid)
    path = config(text)
    answer = probing("attach", target.pid, "--config", path)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == "probing: %s: %s\n" % (path, message)
    assert threads(target.pid) == before


def test_targets(target, probing, tmp_path):
    answer = probing("attach")
    assert answer.returncode == 2 and "TARGET is missing" in answer.stderr
    answer = probing(target.pid, "attach", target.pid)
    assert answer.returncode == 2 and "two targets" in answer.stderr
    answer = probing("attach", target.pid, "--config", tmp_path / "none.yaml")
    assert answer.returncode == 2 and "No such file" in answer.stderr
    answer = probing("attach", target.pid, env={"PROBING_TARGET": "1"})
    assert answer.returncode == 0, answer.stderr
