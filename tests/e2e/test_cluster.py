"""Nodes find each other: by the job's own environment, by ssh, by hearsay; and lose each other."""
import json
import os
import subprocess
import sys

import pytest

import clusters
import harness
import hosts
import patience
import torches
from clusters import all_alive, members

pytestmark = hosts.needed()
TOKEN = "5e" * 32
FAST = {"PROBING_CLUSTER_INTERVAL": "0.5"}


@pytest.fixture
def network(tmp_path):
    it = hosts.Network(tmp_path)
    yield it
    it.stop()


def rank_env(number, world, master, port=29500):
    return {"RANK": str(number), "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": master.address, "MASTER_PORT": str(port)}


def fake_rank(host, *how):
    """A process that is a rank by its environment."""
    return host.start(sys.executable, os.path.join(harness.TARGETS, "simple.py"),
                      env=rank_env(*how), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.skipif(not torches.python(), reason="no torch")
@pytest.mark.skipif(bool(hosts.Ssh.why_not()), reason=str(hosts.Ssh.why_not()))
def test_attach_finds_all(network, tmp_path):
    """Eight ranks under torchrun on four machines: nothing is installed or named, all are found."""
    machines = [network.add(**FAST) for _ in range(4)]
    ssh = hosts.Ssh(tmp_path, machines)
    job = clusters.Torchrun(machines, tmp_path)
    # The program is on the first machine alone: the others get it by ssh.
    for host in machines[1:]:
        host.run("mount", "-t", "tmpfs", "tmpfs", os.path.dirname(harness.BIN))
    out = machines[0].text("cluster", "attach", timeout=180)
    assert out.count("started by ssh") == 3 and "4 nodes, 8 ranks" in out, out
    listed = json.loads(machines[0].text("cluster", "nodes", "-f", "json"))["members"]
    assert {one["host"]: one["jobs"][0]["ranks"] for one in listed} == {
        "node-a": "0-1", "node-b": "2-3", "node-c": "4-5", "node-d": "6-7"}
    assert {one["jobs"][0]["job"] for one in listed} == {machines[0].address + ":29500"}
    assert {one["jobs"][0]["script"] for one in listed} == {"cluster_train.py"}
    # Addresses are those under which somebody was reached, not what the job calls its master.
    assert {one["address"] for one in listed} == {host.address + ":7707" for host in machines}
    # What was copied is the very program, for its owner alone.
    copied = machines[2].run("sh", "-c", "cd $HOME/.cache/probing/*/ && ls -l probing libduckdb.so "
                             "&& sha256sum probing").stdout
    assert copied.count("-rwx------") == 2, copied
    here = subprocess.run(["sha256sum", harness.BIN], stdout=subprocess.PIPE, encoding="utf-8")
    assert here.stdout.split()[0] in copied
    job.stop()
    del ssh


def test_without_ssh(network):
    """Where ssh does not work it is said, and who is there is attached all the same."""
    one, two = network.add(**FAST), network.add(**FAST)
    fake_rank(one, 0, 2, one)
    fake_rank(two, 1, 2, one)
    assert patience.once(lambda: "1/2" in two.text("list"))
    it = two.probing("cluster", "attach", env={"PROBING_SSH": "/bin/false"})
    assert it.returncode == 0 and "missing:" in it.stdout and "1 node, 1 rank" in it.stdout, it
    it = two.probing("cluster", "attach", "10.77.0.77", env={"PROBING_SSH": "/bin/false"})
    assert it.returncode == 4, it
    it = network.add(**FAST).probing("cluster", "attach")
    assert it.returncode == 4 and "no rank of a job runs here" in it.stderr, it


def test_members_come_and_go(network):
    """One is killed, one cut off, one late, one started again: the others know, and heal."""
    machines = [network.add(PROBING_TOKEN=TOKEN, **FAST) for _ in range(4)]
    first, second, third, late = machines
    assert first.probing("cluster", "attach", "--no-start", second.address).returncode == 4
    for host in (second, third):
        host.text("cluster", "attach", "--no-start", first.address)
    clusters.wait_for(lambda: all_alive([first, second, third]))
    # Late: through any member, not only the first.
    late.text("cluster", "attach", third.address + ":7707")
    clusters.wait_for(lambda: all_alive(machines))
    # Cut off: gone for the others and they for it; it heals by itself.
    late.pull()
    clusters.wait_for(lambda: members(first).get("node-d") == "gone")
    clusters.wait_for(lambda: set(members(late).values()) == {"here", "gone"})
    late.pull(there=True)
    clusters.wait_for(lambda: all_alive(machines))
    # The first one loses its power: nobody needed it.
    first.stop()
    rest = machines[1:]
    clusters.wait_for(lambda: all(members(host).get("node-a") == "gone" for host in rest))
    # A node that is killed comes back with the next command on its machine, to its cluster.
    pid = int(third.text("serve", "--status").split()[1].rstrip(","))
    third.run("kill", "-KILL", pid)
    clusters.wait_for(lambda: members(second).get("node-c") in ("suspect", "gone"))
    third.text("query", "SELECT 1")
    clusters.wait_for(lambda: members(second).get("node-c") == "alive")
    clusters.wait_for(lambda: members(third).get("node-d") == "alive")
    # One that leaves says so.
    assert "has left" in third.probing("cluster", "detach").stderr
    clusters.wait_for(lambda: members(second).get("node-c") == "left")
    assert third.probing("cluster", "nodes").returncode == 4
    assert third.run("ss", "-ltn").stdout.count(":7707") == 0


def test_a_home_that_machines_share(network, tmp_path):
    """One folder for all machines of a user: each has a node and its own place in the cluster."""
    one, two = network.add(PROBING_TOKEN=TOKEN, **FAST), network.add(PROBING_TOKEN=TOKEN, **FAST)
    for host in (one, two):
        host.env.update(HOME=str(tmp_path / "home"), PROBING_HOME=str(tmp_path / "home" / "data"))
    one.probing("cluster", "attach", "--no-start", two.address)
    two.text("cluster", "attach", "--no-start", one.address)
    clusters.wait_for(lambda: all_alive([one, two]))
    # Each finds its way back as itself.
    for host in (one, two):
        pid = int(host.text("serve", "--status").split()[1].rstrip(","))
        host.run("kill", "-KILL", pid)
        host.text("query", "--local", "SELECT 1")
        clusters.wait_for(lambda: all_alive([one, two]))
    told = json.loads(two.text("cluster", "nodes", "-f", "json"))["members"]
    assert {(it["host"], it["address"]) for it in told if it["state"] == "alive"} == {
        ("node-a", one.address + ":7707"), ("node-b", two.address + ":7707")}, told


def test_started_anew(network):
    """The first question after a start is for all it knew, however long the rounds are."""
    one, two = (network.add(PROBING_TOKEN=TOKEN, PROBING_CLUSTER_INTERVAL="60") for _ in range(2))
    one.probing("cluster", "attach", "--no-start", two.address)
    two.text("cluster", "attach", "--no-start", one.address)
    clusters.wait_for(lambda: all_alive([one, two]))
    sql = ("query", "-f", "csv", "SELECT host FROM probing.cost WHERE what = 'node' ORDER BY host")
    one.text("serve", "--stop")
    assert one.text(*sql).split() == ["host", "node-a", "node-b"]
    one.text("serve", "--stop")
    one.pull()
    it = one.probing(*sql)
    assert it.returncode == 6 and it.stdout.split() == ["host", "node-a"], it
    assert "1 of 2 nodes answered" in it.stderr, it
    assert two.address + ":7707 (known from before" in it.stderr, it


def test_kept_apart(network):
    """Another token, another name: no member, and counted."""
    one, two, other, named = (network.add(**FAST) for _ in range(4))
    for host, token in ((one, TOKEN), (two, TOKEN), (other, "f0" * 32), (named, TOKEN)):
        host.env["PROBING_TOKEN"] = token
    one.probing("cluster", "attach", "--no-start", two.address)
    two.text("cluster", "attach", one.address)
    it = other.probing("cluster", "attach", "--no-start", one.address)
    assert it.returncode == 4 and "does not have this token" in it.stderr, it
    it = named.probing("cluster", "attach", "--no-start", "--name", "second", one.address)
    assert it.returncode == 4 and "another cluster: 'second', not 'default'" in it.stderr, it
    clusters.wait_for(lambda: all_alive([one, two]))
    assert members(one) == {"node-a": "here", "node-b": "alive"}
    assert json.loads(one.text("cluster", "nodes", "-f", "json"))["refused"] > 0
    it = one.probing("cluster", "attach", "--no-start", "--name", "second", two.address)
    assert it.returncode == 1 and "belongs to cluster 'default' already" in it.stderr, it


def test_observer(network):
    """A machine with the program and the token alone looks at the cluster, and is no member."""
    one, two, laptop = (network.add(PROBING_TOKEN=TOKEN, **FAST) for _ in range(3))
    one.probing("cluster", "attach", "--no-start", two.address)
    two.text("cluster", "attach", one.address)
    laptop.text("cluster", "attach", "--observe", one.address + ":7707")
    clusters.wait_for(lambda: set(members(laptop)) == {"node-a", "node-b"})
    assert set(members(one)) == {"node-a", "node-b"}
    assert laptop.run("ss", "-ltn").stdout.count(":7707") == 0
    # The same without asking for it, when the others cannot reach it.
    laptop.text("cluster", "detach")
    out = laptop.text("cluster", "attach", "--listen", "127.0.0.1:7707", one.address)
    assert "is not asked" in out, out
    clusters.wait_for(lambda: members(one).get("node-c") in ("left", None))
    clusters.wait_for(lambda: members(laptop) == {"node-a": "alive", "node-b": "alive"})


def test_two_jobs_and_a_restart(network):
    """Ranks belong to their jobs, and to the run of them that there is now."""
    one, two = network.add(PROBING_TOKEN=TOKEN, **FAST), network.add(PROBING_TOKEN=TOKEN, **FAST)
    jobs = [fake_rank(one, 0, 2, one), fake_rank(two, 1, 2, one),
            fake_rank(one, 0, 1, one, 29600)]
    assert patience.once(lambda: "1/2" in two.text("list") and
                         one.text("list").count("/") >= 2)
    one.probing("cluster", "attach", "--no-start")
    two.text("cluster", "attach", one.address)

    def known(host):
        return {(job["job"], job["ranks"], job["world"], job["restarts"])
                for one in json.loads(host.text("cluster", "nodes", "-f", "json"))["members"]
                for job in one["jobs"]}
    both = {(one.address + ":29500", "0", 2, 0), (one.address + ":29500", "1", 2, 0),
            (one.address + ":29600", "0", 1, 0)}
    clusters.wait_for(lambda: known(one) == both and known(two) == both)
    for process in jobs[:2]:
        one.kill(process)
    env = dict(rank_env(0, 1, one), TORCHELASTIC_RESTART_COUNT="1")
    jobs.append(two.start(sys.executable, os.path.join(harness.TARGETS, "simple.py"), env=env,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    after = {(one.address + ":29500", "0", 1, 1), (one.address + ":29600", "0", 1, 0)}
    clusters.wait_for(lambda: known(one) == after and known(two) == after)
