"""What the page is tested with: a training process, four ranks under torchrun, and a dead one."""
import importlib.util
import os
import re
import sys
import time

import pytest

import harness
import ranks
from nodes import Node

needed = pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="no torch")
SCRIPT = os.path.join(harness.TARGETS, "web_train.py")


class Jobs:
    """They train until hold() is called: then what the page shows can be compared with SQL."""

    def __init__(self, folder, **settings):
        self.folder = str(folder)
        self.holding = os.path.join(self.folder, "hold")
        self.node = Node(folder, **settings)
        self.jobs = []
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def job(self, n, *words):
        torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", str(n), "--master-port",
                    "PORT"] if n > 1 else []
        place = os.path.join(self.folder, "job%d" % len(self.jobs))
        os.mkdir(place)
        hold = ["--hold", self.holding] if self.holding else []
        job = ranks.Job([sys.executable] + torchrun + [SCRIPT] + hold + list(words), n, place)
        self.jobs.append(job)
        return [job.pids[rank] for rank in sorted(job.pids)]

    def start(self):
        self.dead, = self.job(1, "--step-ms", "20", "--steps", "40")
        self.inject(self.dead)
        self.one, = self.job(1, "--step-ms", "60", "--markup", "--name-thread",
                             "<script>window.hacked=3</script>")
        self.four = self.job(4, "--step-ms", "150", "--slow-rank", "2")
        self.inject(self.one, *self.four)
        self.all = [self.one] + self.four
        self.wait_for("SELECT min(n) AS x FROM (SELECT count(*) AS n FROM python.training_logs "
                      "WHERE step_ms IS NOT NULL GROUP BY pid HAVING pid IN (%s))"
                      % ", ".join(map(str, self.all)), lambda x: x and x >= 12)
        self.jobs[0].process.wait(60)

    def inject(self, *pids):
        for pid in pids:
            answer = self.node(pid, "inject")
            assert answer.returncode == 0, answer

    def wait_for(self, sql, good, seconds=90):
        """Until the x of the answer is good."""
        end = time.monotonic() + seconds
        while True:
            found = self.node.rows(sql)
            if found and good(found[0]["x"]):
                return
            assert time.monotonic() < end, (sql, found)
            time.sleep(0.5)

    def hold(self):
        """No step is made from now on, and the rows of the last ones are there."""
        open(self.holding, "w").close()
        steps, last = None, -1
        while steps != last:
            last = steps
            time.sleep(0.7)
            steps = self.node.rows("SELECT pid, max(step) AS step FROM python.training_logs "
                                   "GROUP BY pid ORDER BY pid",
                                   target=",".join(map(str, self.all)))

    def go_on(self):
        if os.path.exists(self.holding):
            os.unlink(self.holding)

    def address(self, *words):
        """Of the page, for one browser."""
        answer = self.node("web", "--no-browser", *words)
        assert answer.returncode == 0, answer
        return answer.stdout.strip()

    def link(self, page, scope="control", **params):
        """An address that signs in and shows that page."""
        base, ticket = re.match(r"(\S+)/#/\S*ticket=(\w+)",
                                self.address("--scope", scope)).groups()
        more = "".join("&%s=%s" % pair for pair in params.items())
        return "%s/#/%s?ticket=%s%s" % (base, page, ticket, more)

    def stop(self):
        self.go_on()
        for job in self.jobs:
            job.stop()
        self.node.stop()
