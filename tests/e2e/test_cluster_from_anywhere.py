"""Every machine of a cluster can ask, and one that has nothing but the program and the token."""
import json
import os
import shutil
import subprocess
import sys

import pytest

import clusters
import harness
import hosts

pytestmark = hosts.needed()
TOKEN = "5e" * 32
FAST = {"PROBING_CLUSTER_INTERVAL": "0.5"}
ASK = """
import http.client, sys
for path in ("/api/cluster/key", "/api/cluster"):
    it = http.client.HTTPConnection("127.0.0.1", 7707)
    it.request("GET", path, headers={"Authorization": "Bearer " + sys.argv[1]})
    print(it.getresponse().status, end="\\n" if path == "/api/cluster" else " ")
"""


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    """
    Three with a rank each. The nodes were told the token when they were attached, as when one was
    started by ssh; nobody is told again: each user's own is another.
    """
    folder = tmp_path_factory.mktemp("anywhere")
    network = hosts.Network(folder)
    made = [network.add(**FAST) for _ in range(3)]
    for number, host in enumerate(made):
        host.start(sys.executable, os.path.join(harness.TARGETS, "simple.py"), env={
            "RANK": str(number), "WORLD_SIZE": "3", "MASTER_ADDR": made[0].address,
            "MASTER_PORT": "29500"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(os.path.join(host.home, "secret"), "w") as file:
            file.write(TOKEN + "\n")
        host.text("token")
    for host in made:
        host.probing("cluster", "attach", "--token-file", host.home + "/secret", "--no-start",
                     made[0].address if host is not made[0] else made[1].address)
        os.unlink(host.home + "/secret")
    clusters.wait_for(lambda: clusters.all_alive(made))
    clusters.wait_for(lambda: len(json.loads(made[2].text(
        "cluster", "list", "-f", "json"))) == 3)
    made[0].network = network
    yield made
    network.stop()


def test_every_member_can_ask(machines):
    """Ranks elsewhere are asked with the cluster's token, which is not this user's own."""
    for host in machines:
        out = host.text("ranks:0-2", "eval", "import os; os.environ['RANK']")
        assert [line for line in out.splitlines() if line.startswith("'")] == ["'0'", "'1'", "'2'"]
        told = json.loads(host.text("cluster", "backtrace", "--json"))
        assert told["processes"] == 3 and not told["partial"]
        for rank in range(3):
            assert "simple.py" in host.text("rank:%d" % rank, "backtrace", "-l")
        assert "resident" in host.text("rank:1", "memory")
        assert host.text("cluster", "config", "memory.interval").count("\n1\n") == 3
    # The node tells it nobody but its user's own commands, not even who has it already.
    it = machines[0].run(sys.executable, "-c", ASK, TOKEN)
    assert it.stdout == "403 200\n", it


def test_the_program_and_the_token_alone(machines):
    """No SQL engine is there: what needs one is put together by a member."""
    laptop = machines[0].network.add("laptop", **FAST)
    program = os.path.join(laptop.home, "probing")
    shutil.copy(harness.BIN, program)
    env = {"PROBING_TOKEN": TOKEN}

    def run(*words, **more):
        it = laptop.run(program, *words, env=dict(env, **more))
        assert it.returncode == 0, (words, it)
        return it
    assert "1 node" not in run("cluster", "attach", "--observe", machines[1].address).stdout
    it = run("query", "-f", "csv", "SELECT host, count(*) AS n FROM system.process WHERE "
             "rank IS NOT NULL GROUP BY host ORDER BY host")
    assert it.stdout.split() == ["host,n", "node-a,1", "node-b,1", "node-c,1"]
    assert "puts the answers together" in it.stderr
    assert "3 of 3: ranks 0-2" in run("cluster", "backtrace").stdout
    assert "3 of 3: ranks 0-2" in run("cluster", "backtrace", PROBING_ENGINE="/nowhere").stdout
    assert len(json.loads(run("cluster", "list", "-f", "json").stdout)) == 3
    assert "python.folded_stacks" in run("cluster", "tables").stdout
    assert run("rank:2", "eval", "6 * 7").stdout == "42\n"
    assert "simple.py" in run("rank:0", "backtrace").stdout
    assert run("cluster", "memory").stdout.count("resident") == 3
    # What is about this machine alone has nobody else to ask.
    it = laptop.run(program, "query", "--local", "SELECT 1", env=env)
    assert it.returncode == 1 and "SQL engine" in it.stderr, it


def test_what_is_not_there_is_said(machines):
    first = machines[0]
    it = first.probing("job:nothing.py", "--cluster", "backtrace")
    assert it.returncode == 4 and "no such job in the cluster: nothing.py" in it.stderr, it
    it = first.probing("rank:9", "backtrace")
    assert it.returncode == 4 and "no such rank in the cluster: 9; there are 0-2" in it.stderr, it
