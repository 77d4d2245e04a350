"""Apache Spark as it comes from PyPI: a master and two workers on one of the test's machines."""
import functools
import importlib.util
import json
import os
import shutil
import subprocess
import sys

import harness
import patience

PORT = 7077


@functools.lru_cache(maxsize=None)
def places():
    """(folders for PYTHONPATH, SPARK_HOME), or None. PROBING_TEST_SPARK names folders as well."""
    named = [path for path in os.environ.get("PROBING_TEST_SPARK", "").split(":") if path]
    for folder in named:
        for home in (os.path.join(folder, "pyspark"), os.path.join(folder, "deps")):
            if os.path.isdir(os.path.join(home, "jars")):
                return named, home
    found = importlib.util.find_spec("pyspark")
    home = found and os.path.dirname(found.origin)
    return ([], home) if home and os.path.isdir(os.path.join(home, "jars")) else None


def why_not():
    if not shutil.which("java"):
        return "no java"
    return None if places() else "no pyspark"


class Spark:
    """Stays until the machine is stopped."""

    def __init__(self, host, folder, package):
        self.host, self.folder = host, os.path.join(str(folder), "spark")
        os.makedirs(self.folder)
        paths, self.home = places()
        self.env = {"SPARK_HOME": self.home, "SPARK_LOCAL_IP": host.address,
                    "SPARK_LOCAL_HOSTNAME": host.address, "PYSPARK_PYTHON": sys.executable,
                    "PROBING_EXECUTABLE": harness.BIN, "SPARK_LOCAL_DIRS": self.folder,
                    "PYTHONPATH": ":".join(paths + [str(package)]),
                    "_JAVA_OPTIONS": "-Djava.io.tmpdir=%s" % self.folder}
        self.url = "spark://%s:%d" % (host.address, PORT)
        self.start("master", "master.Master", "--host", host.address, "--port", PORT,
                   "--webui-port", 0)
        self.wait("master", "Successfully started service 'sparkMaster'")
        for name in ("one", "two"):
            self.start(name, "worker.Worker", "--host", host.address, "--cores", 1, "--memory",
                       "1g", "--webui-port", 0, "-d", os.path.join(self.folder, name), self.url)
        for name in ("one", "two"):
            self.wait(name, "Successfully registered with master")

    def start(self, name, kind, *words):
        with open(os.path.join(self.folder, name + ".log"), "w") as log:
            self.host.start(os.path.join(self.home, "bin", "spark-class"),
                            "org.apache.spark.deploy." + kind, *words, env=self.env, stdout=log,
                            stderr=subprocess.STDOUT)

    def wait(self, name, words):
        path = os.path.join(self.folder, name + ".log")

        def said():
            with open(path, errors="replace") as log:
                return words in log.read()
        assert patience.once(said, seconds=5 * patience.SECONDS), open(
            path, errors="replace").read()[-3000:]

    def run(self, script, task):
        """What a driver of tests/targets answers to its task; both JSON."""
        path = os.path.join(self.folder, "task.json")
        with open(path, "w") as file:
            json.dump(dict(task, master=self.url, address=self.host.address), file)
        it = self.host.run(sys.executable, os.path.join(harness.TARGETS, script), path,
                           env=self.env, timeout=900)
        assert it.returncode == 0, it.stderr[-4000:]
        return json.loads(it.stdout.splitlines()[-1])
