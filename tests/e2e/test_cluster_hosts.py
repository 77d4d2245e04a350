"""Machines by a file of names and by Slurm, whose programs are stand-ins that go by ssh."""
import json
import os
import subprocess
import sys

import pytest

import clusters
import harness
import hosts
import patience

pytestmark = [hosts.needed(),
              pytest.mark.skipif(bool(hosts.Ssh.why_not()), reason=str(hosts.Ssh.why_not()))]
TOKEN = "5e" * 32
FAST = {"PROBING_CLUSTER_INTERVAL": "0.5"}
SQUEUE = """#!/bin/sh
[ "$*" = "-h -o %N -j 4711" ] && echo '10.77.0.[2-3]'
"""
# Runs the command on each node and waits for all, as a step does.
SRUN = """#!/bin/sh
for word; do echo "$word"; done >{folder}/said
for word; do
    shift
    case "$word" in
    --nodelist=*) nodes=$(echo "${{word#*=}}" | tr , ' ') ;;
    --export=ALL) break ;;
    esac
done
for node in $nodes; do {ssh} -n $node "PROBING_TOKEN=$PROBING_TOKEN $*" & done
wait
"""
# What starts the ranks of a machine: Slurm has numbered it, it numbers them.
LAUNCHER = """
import os, subprocess, sys
first = 2 * int(os.environ["SLURM_PROCID"])
made = [subprocess.Popen([sys.executable, sys.argv[1]], stdout=subprocess.DEVNULL,
                         env=dict(os.environ, RANK=str(first + n), WORLD_SIZE="6",
                                  LOCAL_WORLD_SIZE="2", TORCHELASTIC_RUN_ID="4711"))
        for n in range(2)]
made[0].wait()
"""


@pytest.fixture
def machines(tmp_path):
    network = hosts.Network(tmp_path)
    made = [network.add(**FAST) for _ in range(3)]
    ssh = hosts.Ssh(tmp_path, made)
    folder = tmp_path / "slurm"
    folder.mkdir()
    for name, text in (("squeue", SQUEUE), ("srun", SRUN)):
        (folder / name).write_text(text.format(folder=folder, ssh=ssh.wrapper))
        (folder / name).chmod(0o755)
    made[0].env["PATH"] = "%s:%s" % (folder, os.environ["PATH"])
    made[0].slurm = folder
    yield made
    network.stop()


def test_hosts_of_a_file(machines, tmp_path):
    """Names one a line, with remarks, as host files of MPI have them."""
    path = tmp_path / "hosts"
    path.write_text("# all\n10.77.0.1 slots=2\n\n10.77.0.[2-3]  # the others\n10.77.0.2\n")
    out = machines[0].text("cluster", "attach", "--hosts", path, timeout=180)
    assert out.count("started by ssh") == 2 and "3 nodes, 0 ranks" in out, out
    clusters.wait_for(lambda: clusters.all_alive(machines))
    it = machines[0].probing("cluster", "attach", "--hosts", tmp_path / "none")
    assert it.returncode == 2 and "none: No such file" in it.stderr, it


def test_job_of_slurm(machines):
    """By its number: squeue says where, srun starts the nodes, which stay as long as the step."""
    first = machines[0]
    out = first.text("cluster", "attach", "--slurm", "4711", env={"PROBING_TOKEN": TOKEN},
                     timeout=180)
    assert out.count("started by srun") == 2 and "3 nodes" in out, out
    said = (first.slurm / "said").read_text().split("\n")
    for word in ("--overlap", "--jobid=4711", "--nodelist=10.77.0.2,10.77.0.3", "--nodes=2",
                 "--ntasks-per-node=1"):
        assert word in said, (word, said)
    assert TOKEN not in said, said
    for host in machines:
        host.env["PROBING_TOKEN"] = TOKEN
    clusters.wait_for(lambda: clusters.all_alive(machines))
    it = first.probing("cluster", "attach", "--slurm", "99")
    assert it.returncode == 4 and "knows no running job 99" in it.stderr, it
    it = first.probing("cluster", "attach", "--slurm", "1; touch /tmp/x")
    assert it.returncode == 2 and "no number of a job" in it.stderr, it


def test_ranks_in_a_job_of_slurm(machines):
    """The job's environment is enough; what starts a machine's ranks is none of them."""
    first = machines[0]
    for number, host in enumerate(machines):
        env = {"SLURM_JOB_ID": "4711", "SLURM_JOB_NODELIST": "10.77.0.[1-3]", "SLURM_NTASKS": "3",
               "SLURM_PROCID": str(number), "MASTER_ADDR": first.address, "MASTER_PORT": "29500"}
        host.start(sys.executable, "-c", LAUNCHER, os.path.join(harness.TARGETS, "simple.py"),
                   env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def known():
        return {one["host"]: [(job["job"], job["ranks"], job["world"]) for job in one["jobs"]]
                for one in json.loads(first.text("cluster", "nodes", "-f", "json"))["members"]}
    assert patience.once(lambda: all(host.text("list").count("simple.py") == 2
                                     for host in machines))
    out = first.text("cluster", "attach", env={"PROBING_TOKEN": TOKEN}, timeout=180)
    assert out.count("started by srun") == 2, out
    first.env["PROBING_TOKEN"] = TOKEN
    key = first.address + ":29500"
    clusters.wait_for(lambda: known() == {"node-a": [(key, "0-1", 6)], "node-b": [(key, "2-3", 6)],
                                          "node-c": [(key, "4-5", 6)]})
    it = first.probing("rank:0", "backtrace")
    assert it.returncode == 0 and "simple.py" in it.stdout and "claimed" not in it.stderr, it
