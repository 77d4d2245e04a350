"""
Every command of the project's descriptions, as written there and in their order, against the
ImageNet example and a job of two ranks. Queries are in test_seeds_sql.py as well, on processes
that use no torch. A command that does not exist stands here with the answer it gives as well.
"""
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

import harness
import marks
import package
import querying
import ranks
from test_examples import Example

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="no torch")

ROWS = r"(?s)^\S.*\n[-|]+\n\S"          # titles, dashes, at least one row
STACK = r'^Thread \d+ "MainThread"'
SAID = r""
NO_ROWS_YET = r"(probing: none of the rows fits; .*\n)?"
PSUTIL = importlib.util.find_spec("psutil") is not None


COMMANDS = re.findall(r"(?m)^  (\w+) ", harness.probing("help").stdout.split("Arguments:")[0])


def promised(word, nearest, *answer):
    """The answer of a command; as long as there is none, the line that says what comes nearest."""
    if word in COMMANDS:
        return answer
    return 2, r"^$", r"^probing: no command '%s' here; nearest in meaning: %s\n$" % (word, nearest)


# What psutil prints, or that the target's Python does not have it: the tool adds nothing.
def psutil(text):
    return ((0, text, r"^$") if PSUTIL else
            (1, r"^$", r"ModuleNotFoundError: No module named 'psutil'"))


# (line, exit code, stdout, stderr); <pid>, $TRAIN_PID and $ENDPOINT are the process.
LINES = [
    # The first description.
    ("probing -t <pid> inject", 0, r"^(Successfully injected probes into|Probes are already in) "
                                   r"process \d+\n$", r"^$"),
    ("probing -t <pid> inject -P", 0, r"^Probes are already in process \d+; options applied\n$",
     r"^$"),
    ("probing -t <pid> inject --crash", 0,
     r"^Probes are already in process \d+; options applied\n$", r"^$"),
    ("probing -t <pid> inject -l 127.0.0.1:0", 0, r"Probing server listening on 127\.0\.0\.1:\d+",
     r"^probing: token: "),
    ("probing --help", 0, r"(?s)Usage: probing \[OPTIONS\] \[TARGET\] \[COMMAND\].*inject.*config"
                          r"|backtrace", r"^$"),
    ("probing help", 0, r"Usage: probing \[OPTIONS\] \[TARGET\] \[COMMAND\]", r"^$"),
    ("probing --version", 0, r"^probing \d", r"^$"),
    # The second.
    ("probing $TRAIN_PID inject", 0, r"^Probes are already in process \d+\n$", r"^$"),
    ("probing $TRAIN_PID backtrace", 0, STACK, r"^$"),
    ('probing $TRAIN_PID "SELECT * FROM python.backtrace"', 0, ROWS, r"^$"),
    ("probing <pid> inject", 0, r"^Probes are already in process \d+\n$", r"^$"),
    ("probing <pid> backtrace", 0, STACK, r"^$"),
    ("probing <pid> memory", 0, r"(?s)^process \d+ .*resident", r"^$"),
    ("probing <pid> flamegraph", 0,
     r"(?s)^recorded \d+ at 100 Hz, .* samples.*%  █+.*\nflamegraph-\d+-\d{6}\.html ", r"^$"),
    ("""probing <pid> query "SELECT * FROM memory_usage WHERE timestamp > """
     """now() - interval '5 min'\"""", 0, ROWS, r"^$"),
    ("probing run python train.py", 0, r"trained", r"^Probing enabled for process \d+\n$"),
    ('probing query "SELECT avg(gpu_util) FROM gpu_metrics WHERE timestamp > now() - 60"', 0,
     r"^avg\(gpu_util\) \[%\]\n", r"^(probing: gpu\.utilization: .*\n)?$"),
    ("probing cluster attach",) + promised("cluster", "HOST:PORT query, job:SCRIPT query",
                                           0, r"\w", SAID),
    ('probing query "SELECT src_rank, dst_rank, avg(latency_ms) FROM comm_metrics"', 0, ROWS,
     r"^probing: no GROUP BY: grouped by src_rank, dst_rank\n$"),
    ('probing <pid> query "SELECT hour(timestamp), avg(memory_mb) FROM memory_usage '
     'GROUP BY hour(timestamp)"', 0, ROWS, r"^$"),
    ('''probing query "
  SELECT operation_name, avg(duration_ms), count(*)
  FROM profiling_data 
  WHERE timestamp > now() - interval '5 minutes'
  GROUP BY operation_name
  ORDER BY avg(duration_ms) DESC
"''', 0, ROWS, r"^$"),
    ('''probing query "
  SELECT epoch, avg(loss), min(loss), count(*) as steps
  FROM training_logs 
  GROUP BY epoch 
  ORDER BY epoch
"''', 0, ROWS, r"^$"),
    ("export PROBING_SAMPLE_RATE=0.1; probing <pid> inject", 0, r"options applied\n$", r"^$"),
    ("probing <pid> config sample_rate", 0, r"^0\.1\n$", r"^$"),
    ("export PROBING_RETENTION_DAYS=7; probing query 'SHOW retention.days'", 0, r"7\n$", r"^$"),
    ("probing attach <pid> --config custom_probes.yaml", 0,
     r"^Probes are already in process \d+; settings applied\n$", r"^$"),
    ("probing <pid> config sample_rate", 0, r"^1\n$", r"^$"),
    # The third.
    ('probing -t <pid> query "SELECT * FROM python.torch_trace"', 0, ROWS, r"^$"),
    ('''probing -t <pid> query "SELECT
    operation_name,
    AVG(duration_ms) as avg_duration,
    COUNT(*) as call_count
FROM python.torch_trace
WHERE timestamp > now() - interval '5 minutes'
GROUP BY operation_name
ORDER BY avg_duration DESC
LIMIT 10"''', 0, ROWS, r"^$"),
    # As written it needs a loss in __main__: the prompt says which function has it.
    ('''probing -t <pid> repl <<'EOF'
model = [m for m in gc.get_objects() if isinstance(m, torch.nn.Module)][0]
print(sum(p.numel() for p in model.parameters()))
print(torch.cuda.memory_allocated() / 1e9, "GB")
print(loss.item())
EOF''', 1, r"(?s)\d+\n.*GB", r"NameError: name 'loss' is not defined\nloss is a variable of (\w+): "
     r"--frame \1\n"),
    ('''probing -t <pid> repl <<'EOF'
model = [m for m in __import__('gc').get_objects() if isinstance(m, torch.nn.Module)][0]
print(sum(p.numel() for p in model.parameters()))
print(torch.cuda.memory_allocated() / 1e9, "GB")
EOF''', 0, r"(?s)\d+\n.*GB", SAID),
    # The fourth.
    ('probing -t <pid> query "SELECT * FROM python.torch_trace LIMIT 10"', 0, ROWS, r"^$"),
    # The last.
    ("""probing $ENDPOINT eval "import threading; [print(f'{t.name}: {t.is_alive()}') for t in """
     """threading.enumerate()]\"""", 0, r"^MainThread: True\n", r"^$"),
    ("""probing $ENDPOINT eval "import torch; print(f'GPU: {torch.cuda.memory_allocated()/1024**3"""
     """:.1f}GB allocated, {torch.cuda.memory_reserved()/1024**3:.1f}GB cached') if """
     """torch.cuda.is_available() else print('CUDA unavailable')\"""", 0,
     r"^(GPU: .*GB cached|CUDA unavailable)\n", r"^$"),
    ('''probing $ENDPOINT query "
SELECT 
    step,
    module,
    SUM(allocated) as total_memory_mb,
    COUNT(*) as operation_count
FROM python.torch_trace 
WHERE step > 100 
GROUP BY step, module 
ORDER BY total_memory_mb DESC 
LIMIT 10"''', 0, r"^step +\| module +\| total_memory_mb +\| operation_count\n",
     "^" + NO_ROWS_YET + "$"),
    ("probing $ENDPOINT backtrace", 0, STACK, r"^$"),
    ('probing $ENDPOINT query "SELECT func, file, lineno FROM python.backtrace '
     'ORDER BY depth LIMIT 3"', 0, r"^func +\| file +\| lineno\n", r"^$"),
    ('probing $ENDPOINT eval "import threading; [(t.name, t.is_alive(), t.daemon) for t in '
     'threading.enumerate()]"', 0, r"^\[\('MainThread', True, False\)", r"^$"),
    ('probing $ENDPOINT query "SELECT func, file, lineno, depth FROM python.backtrace '
     'ORDER BY depth LIMIT 10"', 0, ROWS, r"^$"),
    ("""probing $ENDPOINT eval "import gc, torch; gc.collect(); torch.cuda.empty_cache() if """
     """torch.cuda.is_available() else None; print('Cleanup complete')\"""", 0,
     r"^Cleanup complete\n$", r"^$"),
    ('probing $ENDPOINT query "SELECT step, AVG(allocated) as avg_memory, MAX(allocated) as '
     'peak_memory FROM python.torch_trace WHERE step >= (SELECT MAX(step) - 20 FROM '
     'python.torch_trace) GROUP BY step ORDER BY step"', 0, ROWS, r"^$"),
    ('probing $ENDPOINT query "SELECT module, stage, AVG(allocated) as avg_memory, COUNT(*) as '
     'frequency FROM python.torch_trace WHERE step >= (SELECT MAX(step) - 5 FROM '
     'python.torch_trace) GROUP BY module, stage ORDER BY avg_memory DESC LIMIT 10"', 0, ROWS,
     r"^$"),
    ("""probing $ENDPOINT eval "import psutil; proc = psutil.Process(); print(f'CPU: """
     """{proc.cpu_percent():.1f}%, Memory: {proc.memory_info().rss/1024**3:.2f}GB, Threads: """
     """{proc.num_threads()}')\"""",) + psutil(r"^CPU: "),
    ('pgrep -f "python.*SCRIPT" >/dev/null && probing $ENDPOINT inject', 0,
     r"^Probes are already in process \d+\n$", r"^$"),
    ("""probing $ENDPOINT eval "import os, psutil; proc = psutil.Process(); print(f'PID: """
     """{os.getpid()}, Memory: {proc.memory_info().rss/1024**2:.1f}MB')\"""",)
    + psutil(r"^PID: "),
    ('probing $ENDPOINT query "SELECT name, value FROM information_schema.df_settings LIMIT 5"', 0,
     ROWS, r"^$"),
    ("""probing $ENDPOINT eval "import torch; print(f'CUDA: {torch.cuda.is_available()}') if """
     """'torch' in globals() else print('PyTorch not loaded')\"""", 0, r"^CUDA: (True|False)\n$",
     r"^$"),
    ("""probing $ENDPOINT eval "import threading; print('Active threads:', """
     """len(threading.enumerate()))\"""", 0, r"^Active threads: \d+\n$", r"^$"),
    ('probing $ENDPOINT query "SELECT func, file, lineno FROM python.backtrace ORDER BY depth"', 0,
     ROWS, r"^$"),
]

# Words of the descriptions' prose and tables.
PROMISED = [
    ("probing <pid> debug",) + promised("debug", "repl, backtrace -l, eval --frame N",
                                        0, r"\w", SAID),
    ("probing web",) + promised("web", r"serve --listen 127\.0\.0\.1:8080, query",
                                0, r"http://127\.0\.0\.1:\d+", SAID),
    ("probing <pid> diagnose",) + promised("diagnose", r"query .*hung_collectives.*",
                                           (0, 10), r"\w", SAID),
]


class Seeds:
    def __init__(self, folder):
        self.folder = str(folder)
        self.node = querying.Node(folder)
        self.image = self.ranks = None
        for name in ("train.py", "script.py", "your_app.py", "your_training_script.py"):
            with open(os.path.join(self.folder, name), "w") as file:
                file.write("print('trained')\n")
        with open(os.path.join(self.folder, "custom_probes.yaml"), "w") as file:
            file.write("probing:\n  sample_rate: 1\n")
        # "python" is the one with torch.
        self.node.env["PATH"] = ":".join([os.path.dirname(harness.BIN),
                                          os.path.dirname(sys.executable), os.environ["PATH"]])
        try:
            self.image = Example("imagenet.py", "-a", "resnet18", "--dummy", "-b", "1")
            command = ranks.torchrun("ddp.py", 2)
            self.ranks = subprocess.Popen(
                [part.replace("PORT", str(ranks.free_port())) for part in command],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env=dict(harness.ENV, OMP_NUM_THREADS="1"), preexec_fn=harness.die_with_parent)
            self.node.text(self.image.pid, "inject")
            self.wait(lambda: self.node.run("job:ddp.py", "inject").stdout.count("process") == 2)
            self.of_rank = int(re.findall(r"process (\d+)", self.node.text("job:ddp.py",
                                                                          "inject"))[0])
            for pid in (self.image.pid, self.of_rank):
                for name in ("torch_trace", "training_logs", "memory"):
                    self.wait(lambda: self.node.rows("SELECT 1 FROM python.%s LIMIT 1" % name, pid))
            self.wait(lambda: self.node.rows("SELECT 1 FROM python.comm LIMIT 1", self.of_rank))
        except BaseException:
            self.stop()
            raise

    @staticmethod
    def wait(good):
        end = time.monotonic() + 90
        while not good():
            assert time.monotonic() < end, "did not happen"
            time.sleep(0.2)

    def type(self, line, pid, script):
        line = line.replace("<pid>", str(pid)).replace("SCRIPT", script)
        # Where it is set, $ENDPOINT stands in for a target that is left out.
        named = {"ENDPOINT": str(pid)} if "$ENDPOINT" in line else {"TRAIN_PID": str(pid)}
        return subprocess.run(["/bin/sh", "-c", line], stdin=subprocess.DEVNULL, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                              cwd=self.folder, check=False,
                              env=dict(harness.ENV, **named, **self.node.env))

    def stop(self):
        """torchrun ends its ranks when it is asked to."""
        if self.ranks:
            self.ranks.send_signal(signal.SIGTERM)
            self.ranks.wait(timeout=60)
        if self.image:
            self.image.stop()
        self.node.stop()


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    made = Seeds(tmp_path_factory.mktemp("seeds"))
    yield made
    made.stop()


@pytest.mark.parametrize("which", ["ddp.py"] + marks.rarely("imagenet.py"))
def test_in_order(seeds, which):
    pid = seeds.image.pid if which == "imagenet.py" else seeds.of_rank
    wrong = []
    for line, code, out, err in LINES + PROMISED:
        answer = seeds.type(line, pid, which)
        codes = code if isinstance(code, tuple) else (code,)
        if (answer.returncode not in codes or not re.search(out, answer.stdout)
                or not re.search(err, answer.stderr)):
            wrong.append((line, answer.returncode, answer.stdout[-600:], answer.stderr[-600:]))
    assert wrong == []


def test_the_job_as_a_whole(seeds):
    """What the descriptions call all nodes is, on one machine, a job."""
    for line, out in (
            ("probing job:ddp.py inject", r"(?s)already in process \d+\n.*already in process"),
            ("probing job:ddp.py backtrace", r"(?s)rank 0.*rank 1"),
            ('probing job:ddp.py query "SELECT src_rank, dst_rank, avg(latency_ms) FROM '
             'comm_metrics GROUP BY ALL"', ROWS)):
        answer = seeds.type(line, seeds.of_rank, "ddp.py")
        assert answer.returncode == 0 and re.search(out, answer.stdout), (line, answer)


@pytest.mark.parametrize("line", [
    "PROBING=1 python script.py", "PROBE=1 python your_app.py",
    "PROBING_PORT=8080 python your_training_script.py",
    "PROBING=1 python examples/imagenet.py -a resnet18 --dummy -b 1"])
def test_started_with_probes(seeds, line, tmp_path):
    """The package as it is installed: a folder on the path, and its .pth file."""
    folder = package.make(tmp_path / "site")
    port = ranks.free_port()
    with open(os.path.join(folder, "sitecustomize.py"), "w") as file:
        file.write("import site\nsite.addsitedir(%r)\n" % folder)
    shutil.copy(os.path.join(harness.ROOT, "python", "probing.pth"), folder)
    run = subprocess.Popen(
        ["/bin/sh", "-c", "exec env " + line.replace("8080", str(port))],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        encoding="utf-8", preexec_fn=harness.die_with_parent,
        cwd=harness.ROOT if "examples/" in line else seeds.folder,
        env=dict(harness.ENV, **dict(seeds.node.env, PYTHONPATH=folder, OMP_NUM_THREADS="1",
                                     PROBING_EXECUTABLE=harness.BIN)))
    try:
        first = run.stderr.readline()
        assert first == "Probing enabled for process %d\n" % run.pid
        if "PORT" in line:
            assert run.stderr.readline() == "Probing server listening on 0.0.0.0:%d\n" % port
        if "imagenet" in line:
            assert run.stdout.readline().startswith("process %d: training resnet18" % run.pid)
    finally:
        if "imagenet" in line:
            run.kill()
        run.communicate(timeout=60)
