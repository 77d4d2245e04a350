"""The machines of a job, found by Slurm's own programs, and nodes started as a step of the job."""
import json
import os
import sys

import pytest

import clusters
import harness
import hosts
import patience
import slurms

pytestmark = [hosts.needed(),
              pytest.mark.skipif(bool(slurms.why_not()), reason=str(slurms.why_not()))]


@pytest.fixture
def machines(tmp_path):
    """gpu01 to gpu03, and one that submits: with one home for all, as such machines have."""
    network = hosts.Network(tmp_path)
    made = [network.add(name, PROBING_CLUSTER_INTERVAL="0.5")
            for name in ("gpu01", "gpu02", "gpu03", "login")]
    for host in made:
        host.env.update(HOME=str(tmp_path / "home"), PROBING_HOME=str(tmp_path / "home" / "data"),
                        XDG_CONFIG_HOME=str(tmp_path / "home" / "config"))
    yield made
    network.stop()


@pytest.mark.parametrize("where", ["gpu02", "login"])
def test_a_job_of_slurm(machines, tmp_path, where):
    slurm = slurms.Slurm(tmp_path, machines)
    job = slurm.job(sys.executable, os.path.join(harness.TARGETS, "simple.py"))
    asker = next(host for host in machines if host.name == where)
    if where != "login":
        assert patience.once(lambda: "/6" in asker.text("list"))
    words = ("--slurm", job) if where == "login" else ()
    out = asker.text("cluster", "attach", *words, timeout=120)
    assert out.count("started by srun") == (3 if words else 2) and " nodes, 6 ranks" in out, out
    ranks = {one["host"]: one["jobs"][0]["ranks"] for one in json.loads(
        asker.text("cluster", "nodes", "-f", "json"))["members"] if one["jobs"]}
    assert ranks == {"gpu01": "0-1", "gpu02": "2-3", "gpu03": "4-5"}
    clusters.wait_for(lambda: clusters.all_alive(machines[:4 if words else 3]))
    out = machines[0].text("ranks:1,5", "eval", "import os; os.environ['SLURM_PROCID']")
    assert [line for line in out.splitlines() if line.startswith("'")] == ["'1'", "'5'"]
    assert "6 of 6: ranks 0-5" in machines[2].text("cluster", "backtrace")
    # The step with the nodes is one of the job, and ends with it.
    assert "probing" in machines[3].run("squeue", "-s", "-h", "-o", "%j").stdout
    machines[3].run("scancel", job)
    clusters.wait_for(lambda: not machines[3].run("squeue", "-s", "-h").stdout.strip())
