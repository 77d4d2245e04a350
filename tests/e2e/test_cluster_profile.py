"""torch's profiler on ranks of several machines: all begin with the same step."""
import glob
import json
import os
import re

import pytest

import clusters
import harness
import hosts
import torches

pytestmark = [hosts.needed(), pytest.mark.skipif(not torches.python(), reason="no torch")]
TOKEN = "5e" * 32


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    """Four ranks on two machines."""
    folder = tmp_path_factory.mktemp("profile")
    network = hosts.Network(folder)
    made = [network.add(PROBING_TOKEN=TOKEN, PROBING_CLUSTER_INTERVAL="0.5") for _ in range(2)]
    job = clusters.Torchrun(made, folder, STEP_SECONDS="0.05")
    made[0].probing("cluster", "attach", "--no-start", made[1].address)
    made[1].text("cluster", "attach", "--no-start", made[0].address)
    clusters.wait_for(lambda: clusters.all_alive(made))
    yield made
    job.stop()
    network.stop()


def rows(host, sql):
    return json.loads(host.text("cluster", "query", "-f", "json", sql))


def test_all_begin_with_the_same_step(machines):
    first = machines[0]
    # One is probed much later: its own count of steps is another one.
    first.text("ranks:0-2", "inject")
    clusters.wait_for(lambda: len(rows(first, "SELECT rank FROM python.training_logs "
                                              "GROUP BY rank HAVING count(*) > 40")) == 3)
    first.text("rank:3", "inject")
    clusters.wait_for(lambda: len(rows(first, "SELECT rank FROM python.training_logs "
                                              "GROUP BY rank HAVING count(*) > 5")) == 4)
    it = first.probing("cluster", "profile", "-n", "3", "-o", os.path.join(first.home, "run.json"),
                       timeout=120)
    assert it.returncode == 0 and "too late" not in it.stderr, it
    began = re.findall(r"rank (\d) · (node-\w) .*?\nfrom step (\d+) on, by its own count: the same",
                       it.stdout, re.DOTALL)
    assert [(rank, node) for rank, node, _ in began] == [
        ("0", "node-a"), ("1", "node-a"), ("2", "node-b"), ("3", "node-b")], it.stdout
    assert int(began[3][2]) < int(began[0][2]) - 20
    # The same step is the one with as many collectives before its end.
    done = rows(first, "SELECT rank, min(comm_seq) AS seq, min(step) AS step FROM "
                       "python.training_logs WHERE profiled GROUP BY rank ORDER BY rank")
    assert [row["rank"] for row in done] == [0, 1, 2, 3] and len({row["seq"] for row in done}) == 1
    assert [row["step"] for row in done] == [int(step) for _, _, step in began]
    files = sorted(os.path.basename(path) for path in glob.glob(first.home + "/run.*"))
    assert files == ["run.rank%d.json" % n for n in range(4)]
    with open(os.path.join(first.home, files[3])) as file:
        assert any(event.get("name") == "aten::addmm" for event in json.load(file)["traceEvents"])


def test_one_rank_has_a_name_of_its_own(machines):
    """Without -o, in the folder where the command runs; the rank is on another machine."""
    first = machines[0]
    it = first.run("sh", "-c", "cd && exec %s rank:2 profile -n 1" % harness.BIN)
    assert it.returncode == 0 and "trace: probing-rank2.trace.json" in it.stdout, it
    assert "by its own count" not in it.stdout
    assert os.path.exists(os.path.join(first.home, "probing-rank2.trace.json"))

