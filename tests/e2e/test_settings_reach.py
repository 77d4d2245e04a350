"""A setting reaches the one who acts on it, or is refused: nothing is set without effect."""
import pytest

import agents
from nodes import Node


@pytest.fixture
def one(any_py, tmp_path):
    class One:
        node = Node(tmp_path)
        target = agents.Probed(any_py)
        pid = target.pid

        def value(self, key, target=True):
            answer = self.node(*([self.pid] if target else []), "config", key)
            assert answer.returncode == 0, answer.stderr
            return answer.stdout.strip()

    made = One()
    yield made
    made.target.stop()
    made.node.stop()


def test_the_node_s_are_not_a_process_s(one):
    line = ("probing: retention.days is a setting of the node, not of a process: "
            "probing config retention.days=3\n")
    for words in (["config", "retention.days=3"], ["inject", "-D", "retention.days=3"]):
        answer = one.node(one.pid, *words)
        assert (answer.returncode, answer.stderr) == (2, line)
    assert one.target.threads() == 1
    one.node(one.pid, "inject")
    answer = one.node(one.pid, "query", "SET probing.retention.days = 3")
    assert answer.returncode == 2
    assert "retention.days is a setting of the node, not of a process" in answer.stderr
    # The line it offers works.
    assert one.node("config", "retention.days=3").returncode == 0
    assert one.value("retention.days", target=False) == "3"


def test_a_file_with_the_node_s(one, tmp_path):
    path = tmp_path / "probes.yaml"
    path.write_text("probing:\n  retention.days: 3\n")
    answer = one.node("attach", one.pid, "--config", path)
    assert answer.returncode == 2 and "retention.days is a setting of the node" in answer.stderr
    assert one.target.threads() == 1


def test_a_process_s_are_not_the_node_s(one):
    answer = one.node("config", "memory.interval=5")
    assert answer.returncode == 2
    assert answer.stderr.startswith("probing: memory.interval is a setting of processes: whose? "
                                    "give a target\n")
    answer = one.node("query", "SET probing.memory.interval = 5")
    assert answer.returncode == 2
    assert "memory.interval is a setting of processes: give a target" in answer.stderr


def test_read_when_it_starts(one):
    one.node("query", "SELECT 1")
    answer = one.node("query", "SET probing.query.memory_mb = 512")
    assert answer.returncode == 2 and "read when a node starts" in answer.stderr


@pytest.mark.parametrize("words", [["inject"], ["attach"], ["eval", "1"]], ids=lambda w: w[0])
def test_environment_of_the_command_goes_along(one, words):
    answer = one.node(one.pid, *words, env={"PROBING_SAMPLE_RATE": "0.1"})
    assert answer.returncode == 0, answer.stderr
    assert one.value("sample_rate") == "0.1"


def test_environment_below_the_command_line(one):
    one.node(one.pid, "inject", "-D", "sample_rate=0.3",
             env={"PROBING_SAMPLE_RATE": "0.1", "PROBING_MEMORY_INTERVAL": "7"})
    assert (one.value("sample_rate"), one.value("memory.interval")) == ("0.3", "7")
    # Into one that has its probes already, too.
    answer = one.node(one.pid, "inject", env={"PROBING_SAMPLE_RATE": "0.2"})
    assert answer.stdout == "Probes are already in process %d; options applied\n" % one.pid
    assert one.value("sample_rate") == "0.2"


def test_environment_that_makes_no_sense(one):
    answer = one.node(one.pid, "inject", env={"PROBING_SAMPLE_RATE": "often"})
    assert answer.returncode == 2
    assert answer.stderr == ("probing: $PROBING_SAMPLE_RATE: sample_rate: 'often' is not a number "
                             "from 0 to 1\n")
    assert one.target.threads() == 1


def test_a_node_that_runs_is_told(one):
    one.node("query", "SELECT 1")
    assert one.value("retention.days", target=False) == "7"
    answer = one.node("query", "SELECT 1", env={"PROBING_RETENTION_DAYS": "3"})
    assert (answer.returncode, answer.stderr) == (0, "")
    assert one.value("retention.days", target=False) == "3"
    one.node(one.pid, "inject", env={"PROBING_RETENTION_DAYS": "4"})
    assert one.value("retention.days", target=False) == "4"
    # What was set by hand stays.
    assert one.node("config", "retention.days=5").returncode == 0
    one.node("query", "SELECT 1", env={"PROBING_RETENTION_DAYS": "3"})
    assert one.value("retention.days", target=False) == "5"


def test_a_node_that_cannot_take_it_says_so(one):
    one.node("query", "SELECT 1")
    for env, why in (({"PROBING_QUERY_MEMORY_MB": "512"}, "read when a node starts"),
                     ({"PROBING_RETENTION_DAYS": "few"}, "'few' is not a whole number")):
        answer = one.node("query", "SELECT 1", env=env)
        assert answer.returncode == 0
        assert answer.stderr.startswith("probing: for the node that runs: ") and (
            why in answer.stderr), answer.stderr


def test_set_in_sql_reaches_every_process_of_a_list(one, any_py, start):
    other = start(agents.Probed, any_py)
    for pid in (one.pid, other.pid):
        one.node(pid, "inject")
    both = "%d,%d" % (one.pid, other.pid)
    assert one.node(both, "query", "SET probing.eval.timeout = 9").returncode == 0
    for pid in (one.pid, other.pid):
        assert one.node(pid, "config", "eval.timeout").stdout == "9\n"
