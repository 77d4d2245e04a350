"""A job across machines: hosts, torchrun on each of them, ranks that talk by gloo."""
import json
import os
import re
import subprocess
import sys

import harness
import patience


class Torchrun:
    """Ranks on all of these hosts, two on each; there when the constructor returns."""

    def __init__(self, machines, folder, per_host=2, port=29500, script="cluster_train.py", **env):
        self.machines, self.per_host = machines, per_host
        self.outs, self.processes = [], []
        world = per_host * len(machines)
        env = dict({"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1", "TMPDIR": str(folder)},
                   **env)
        for number, host in enumerate(machines):
            out = os.path.join(str(folder), "%s-%d.out" % (host.name, port))
            self.outs.append(out)
            with open(out, "w") as file:
                self.processes.append(host.start(
                    sys.executable, "-m", "torch.distributed.run", "--nnodes", len(machines),
                    "--nproc-per-node", per_host, "--node-rank", number, "--master-addr",
                    machines[0].address, "--master-port", port,
                    os.path.join(harness.TARGETS, script), env=env, stdout=file,
                    stderr=subprocess.STDOUT))
        assert patience.once(lambda: len(self.ranks()) == world,
                             seconds=2 * patience.SECONDS), self.text()

    def text(self):
        return "\n".join(open(out, errors="replace").read()[-3000:] for out in self.outs)

    def ranks(self):
        """{rank: (host, pid on that host)}"""
        found = {}
        for host, out in zip(self.machines, self.outs):
            with open(out, errors="replace") as file:
                for rank, pid in re.findall(r"rank (\d+) is process (\d+)", file.read()):
                    found[int(rank)] = (host, int(pid))
        return found

    def stop(self):
        for host, process in zip(self.machines, self.processes):
            host.kill(process)


def members(host):
    """{name of a host: its state} as this one knows them; its own is "here"."""
    it = host.probing("cluster", "nodes", "-f", "json")
    if it.returncode:
        return {}
    return {one["host"]: "here" if one["self"] else one["state"]
            for one in json.loads(it.stdout)["members"]}


def all_alive(machines):
    """Does each of them know all?"""
    names = {host.name for host in machines}
    return all({name for name, state in members(host).items() if state in ("here", "alive")} ==
               names for host in machines)


def wait_for(test, seconds=patience.SECONDS):
    assert patience.once(test, seconds=seconds), "it did not come to be"
