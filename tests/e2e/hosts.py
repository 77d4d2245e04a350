"""
Machines of the test's own: each has a network, a name, processes and shared memory of its own; they
are joined by cables to one switch, and each cable can be pulled. Needs root; the file system is
shared, so each gets a home folder of its own.
"""
import os
import shutil
import signal
import subprocess

import pytest

import harness
import patience

NEW = ["unshare", "--net", "--uts", "--mount", "--pid", "--ipc", "--fork", "--kill-child",
       "--mount-proc", "--propagation", "private"]


def why_not():
    """The reason why there can be none here, or None."""
    for tool in ("unshare", "nsenter", "ip"):
        if not shutil.which(tool):
            return "no program " + tool
    it = subprocess.run(["unshare", "--net", "ip", "link", "add", "x0", "type", "veth", "peer",
                         "name", "x1"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return it.stdout.decode().strip() or "no network of one's own" if it.returncode else None


def needed():
    reason = why_not()
    return pytest.mark.skipif(bool(reason), reason="no hosts: %s" % reason)


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
        return [int(word) for word in file.read().split()]


class Host:
    """One machine. run() and start() work on it; its environment says HOME and PROBING_HOME."""

    def __init__(self, network, name, address, folder, **env):
        self.network, self.name, self.address = network, name, address
        self.cable = "p" + name
        self.home = os.path.join(str(folder), name)
        os.makedirs(self.home)
        self.env = dict(harness.ENV, HOME=self.home, PROBING_HOME=self.home + "/data",
                        XDG_CONFIG_HOME=self.home + "/config", **env)
        self.env.pop("PROBING_TOKEN", None)
        self.env.update(env)
        self.keeper = subprocess.Popen(
            NEW + ["sh", "-c", "hostname %s && mount -t tmpfs -o mode=1777 tmpfs /dev/shm && "
                   "ip link set lo up && echo ready && exec sleep infinity" % name],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, preexec_fn=harness.die_with_parent)
        assert self.keeper.stdout.readline() == b"ready\n", name
        self.init = children(self.keeper.pid)[0]
        network.plug(self)

    def command(self, words):
        return ["nsenter", "-t", str(self.init), "-m", "-u", "-i", "-n", "-p"] + [
            str(word) for word in words]

    def run(self, *words, **how):
        """(exit status, stdout, stderr) as subprocess gives it."""
        how.setdefault("timeout", 60)
        env = dict(self.env, **how.pop("env", {}))
        return subprocess.run(self.command(words), stdin=how.pop("stdin", subprocess.DEVNULL),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
                              encoding="utf-8", **how)

    def start(self, *words, **how):
        """A process that goes on."""
        env = dict(self.env, **how.pop("env", {}))
        return subprocess.Popen(self.command(words), stdin=subprocess.DEVNULL, env=env,
                                stdout=how.pop("stdout", subprocess.PIPE),
                                stderr=how.pop("stderr", subprocess.PIPE), encoding="utf-8",
                                preexec_fn=harness.die_with_parent, **how)

    @staticmethod
    def kill(process):
        """Ends what start() started: the process behind nsenter, not only that."""
        for pid in children(process.pid) + [process.pid]:
            os.kill(pid, signal.SIGKILL)
        process.wait()

    def probing(self, *words, **how):
        return self.run(harness.BIN, *words, **how)

    def text(self, *words, **how):
        """What the tool prints; it must succeed."""
        it = self.probing(*words, **how)
        assert it.returncode == 0, (self.name, words, it.returncode, it.stdout, it.stderr)
        return it.stdout

    def pull(self, there=False):
        """Pulls the cable, or plugs it in again."""
        self.network.ip("link", "set", self.cable, "up" if there else "down")

    def stop(self):
        """The power goes: everything on it ends at once."""
        if self.keeper.poll() is None:
            self.keeper.send_signal(signal.SIGKILL)
        self.keeper.wait()
        self.keeper.stdout.close()


class Network:
    """A switch, and hosts 10.77.0.1, 10.77.0.2 and so on at it."""

    def __init__(self, folder):
        self.folder, self.hosts = folder, []
        self.keeper = subprocess.Popen(["unshare", "--net", "--fork", "--kill-child", "sh", "-c",
                                        "echo ready && exec sleep infinity"],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       preexec_fn=harness.die_with_parent)
        assert self.keeper.stdout.readline() == b"ready\n"
        self.init = children(self.keeper.pid)[0]
        self.ip("link", "add", "br0", "type", "bridge", "forward_delay", "0")
        self.ip("link", "set", "br0", "up")

    def ip(self, *words):
        subprocess.run(["nsenter", "-t", str(self.init), "-n", "ip"] + list(words), check=True)

    def add(self, name=None, **env):
        number = len(self.hosts) + 1
        name = name or "node-%s" % "abcdefghijklmnop"[number - 1]
        host = Host(self, name, "10.77.0.%d" % number, self.folder, **env)
        self.hosts.append(host)
        return host

    def plug(self, host):
        self.ip("link", "add", host.cable, "type", "veth", "peer", "name", "eth0", "netns",
                str(host.init))
        self.ip("link", "set", host.cable, "master", "br0", "up")
        inside = ["nsenter", "-t", str(host.init), "-n", "ip"]
        subprocess.run(inside + ["addr", "add", host.address + "/24", "dev", "eth0"], check=True)
        subprocess.run(inside + ["link", "set", "eth0", "up"], check=True)

    def stop(self):
        for host in self.hosts:
            host.stop()
        self.keeper.kill()
        self.keeper.wait()
        self.keeper.stdout.close()


class Ssh:
    """sshd on each of the hosts given, and a way from each to each without a password."""

    def __init__(self, folder, machines):
        self.folder = os.path.join(str(folder), "ssh")
        os.makedirs(self.folder, mode=0o700)
        self.daemons = []
        self.keygen("user")
        self.wrapper = os.path.join(self.folder, "ssh")
        with open(self.wrapper, "w") as file:
            file.write('#!/bin/sh\nexec ssh -i %s/user -o UserKnownHostsFile=/dev/null '
                       '-o StrictHostKeyChecking=no -o LogLevel=ERROR "$@"\n' % self.folder)
        os.chmod(self.wrapper, 0o700)
        for host in machines:
            self.serve(host)
            host.env["PROBING_SSH"] = self.wrapper

    @staticmethod
    def why_not():
        if not os.path.exists("/usr/sbin/sshd") or not shutil.which("ssh"):
            return "no ssh or sshd"
        return None

    def keygen(self, name):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
                        os.path.join(self.folder, name)], check=True)

    def serve(self, host):
        self.keygen("key-" + host.name)
        config = os.path.join(self.folder, host.name)
        passed = " ".join("%s=%s" % (name, host.env[name]) for name in
                          ("HOME", "PROBING_HOME", "XDG_CONFIG_HOME", "PROBING_CLUSTER_INTERVAL",
                           "XDG_CACHE_HOME", "PROBING_ENGINE") if name in host.env)
        with open(config, "w") as file:
            file.write("Port 22\nListenAddress %s\nHostKey %s/key-%s\n"
                       "AuthorizedKeysFile %s/user.pub\nPermitRootLogin yes\nStrictModes no\n"
                       "UsePAM no\nPidFile none\nSetEnv %s\nMaxStartups 100\n"
                       % (host.address, self.folder, host.name, self.folder, passed))
        host.run("mkdir", "-p", "/run/sshd")
        self.daemons.append(host.start("/usr/sbin/sshd", "-D", "-e", "-f", config,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        assert patience.once(lambda: host.run("sh", "-c", "ss -ltn | grep -q :22").returncode == 0)
