"""Nodes of a cluster that one process plays (targets/many_nodes.c), and one that asks them."""
import glob
import json
import os
import subprocess
import time

import harness
import plain_engine
from nodes import Node

TOKEN = "5e" * 32


def build(folder):
    """The simulator, from the libraries of the tool's own build."""
    libraries = os.path.join(os.path.dirname(harness.BIN), "src")
    path = os.path.join(str(folder), "many_nodes")
    subprocess.run(
        ["cc", "-std=gnu11", "-O2", "-D_GNU_SOURCE", "-I" + os.path.join(harness.ROOT, "src"), "-o",
         path, os.path.join(harness.TARGETS, "many_nodes.c")] +
        [os.path.join(libraries, "libpb_%s.a" % name) for name in ("cluster", "host", "base")] +
        ["-l:libssl.a", "-l:libcrypto.a", "-lpthread", "-ldl"], check=True)
    return path


class Others:
    """The nodes that are played. views: SQL for what node {i} has in its tables; claims: by its
    number, the ranks that a node says it runs instead of its own."""

    def __init__(self, folder, count, port, views=(), asker=None, claims=None):
        self.folder, self.count, self.port, self.views = str(folder), count, port, views
        for number, ranks in (claims or {}).items():
            with open(os.path.join(self.folder, "claim-%d" % number), "w") as file:
                file.write(ranks)
        self.process = subprocess.Popen(
            [build(folder), self.folder, str(count), str(port), TOKEN] + ([asker] if asker else []),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, preexec_fn=harness.die_with_parent)
        assert self.process.stdout.readline() == b"ready\n"

    def make_answers(self):
        """Whatever was asked and had no answer yet; the folders, one for each part."""
        made = []
        for path in glob.glob(os.path.join(self.folder, "*.sql")):
            with open(path) as file:
                sql = file.read().rstrip("; \n")
            os.mkdir(path[:-4] + ".new")
            statements = ["CREATE SCHEMA python"]
            for i in range(self.count):
                statements += [view.format(i=i) for view in self.views] + [
                    "COPY (%s) TO '%s.new/%d.parquet' (FORMAT parquet, COMPRESSION zstd)"
                    % (sql, path[:-4], i)]
            plain_engine.first_row("; ".join(statements + ["SELECT 1"]))
            os.rename(path[:-4] + ".new", path[:-4])
            os.unlink(path)
            made.append(path[:-4])
        return made

    def mode(self, number, text):
        """hang, slow, gone, or None."""
        path = os.path.join(self.folder, "mode-%d" % number)
        if text:
            with open(path, "w") as file:
                file.write(text)
        elif os.path.exists(path):
            os.unlink(path)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Asker(Node):
    """A real node in their cluster."""

    def attach(self, others, listen):
        it = self("cluster", "attach", "--no-start", "--listen", listen,
                  "127.0.0.1:%d" % others.port)
        assert it.returncode in (0, 4), it
        end = time.time() + 120
        while self.count("alive") < others.count + 1:
            assert time.time() < end, "%d of %d nodes" % (self.count("alive"), others.count + 1)
            time.sleep(0.2)

    def count(self, state):
        told = json.loads(self("cluster", "nodes", "-f", "json").stdout)
        return sum(one["state"] == state for one in told["members"])

    def server(self):
        """The pid of the server, not of its supervisor."""
        with open("/proc/%d/task/%d/children" % ((self.pid(),) * 2)) as file:
            return int(file.read().split()[0])

    def refused(self):
        return json.loads(self("cluster", "nodes", "-f", "json").stdout)["refused"]

    def prepare(self, others, *words):
        """Until every part of the question has its answers; the folders of these."""
        made = []
        for _ in range(5):
            self(*words, timeout=300)
            new = others.make_answers()
            if not new:
                return made
            made += new
        raise AssertionError("always another question")
