"""Running tests/targets/family.py in some way and reading what the processes said."""
import json
import os
import subprocess

import harness

SCRIPT = os.path.join(harness.TARGETS, "family.py")
CHILDREN = ("fork", "subprocess", "spawn")
SECONDS = 60


class Family:
    """What came out: .main, .children by kind, .status, .stderr."""

    def __init__(self, command, env=None, cwd=None, **how):
        how.setdefault("stderr", subprocess.PIPE)
        # Warnings off: from 3.12 on a fork with a second thread is warned of.
        self.run = subprocess.run(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            timeout=SECONDS, env=environment(env), cwd=cwd, **how)
        self.status = self.run.returncode
        self.stderr = (self.run.stderr or b"").decode()
        self.told = [json.loads(line) for line in self.run.stdout.decode().splitlines()]
        self.children = {one["kind"]: one for one in self.told if one["kind"] != "main"}
        main = [one for one in self.told if one["kind"] == "main"]
        self.main = main[0] if main else None

    def agents(self):
        """{kind: is there an agent}"""
        return {one["kind"]: one["agent"] for one in self.told}

    def enabled_line(self):
        return "Probing enabled for process %d\n" % self.main["pid"]


def environment(more=None):
    """Nothing of Probing's but what is given; None takes a variable away."""
    env = {name: value for name, value in harness.ENV.items()
           if not name.startswith(("PROBING", "PROBE", "ENDPOINT"))}
    env["PYTHONWARNINGS"] = "ignore"
    env.update(more or {})
    return {name: value for name, value in env.items() if value is not None}


