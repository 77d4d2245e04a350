"""
The agent, built with a sanitizer, in a Python that runs with the sanitizer's library: rows and
spans from several threads, evaluations, REPL lines, completions, settings, profiles, starts and
stops, forks; then the programs of test_eval_storm.py under evaluations and prompts. Any report
fails it, and so does a host that does not end as it should.

usage: PROBING_BIN=BUILD/probing PROBING_CHECKED_AGENT=BUILD/checked/libprobing.so \
           python agent.py SECONDS SANITIZER_LIBRARY

The interpreter itself is not instrumented: what it does is seen only where it takes locks,
allocates or frees.
"""
import glob
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))

import harness  # noqa: E402
import storms  # noqa: E402
from load import read  # noqa: E402

EVALS = 300
CODES = ["1 + 1", "sum(range(30000))", "print('x' * 5000)", "1 / 0", "import time; time.sleep(0.1)",
         "import sys; print('e', file=sys.stderr)", "[thread.name for thread in threads]",
         "for i in range(50): print(i)"]


def find_python():
    """The tests' own interpreter, which may have torch, and whether it has."""
    made = os.path.join(ROOT, "build", "venv", "bin", "python")
    path = made if os.path.exists(made) else sys.executable
    answer = subprocess.run([path, "-c", "import torch"], stderr=subprocess.DEVNULL)
    return path, answer.returncode == 0


def environment(runtime, reports):
    options = "log_path=%s:exitcode=66:handle_segv=0:" % os.path.join(reports, "report")
    # The loader of the interpreter keeps what it allocates.
    return {"LD_PRELOAD": os.path.realpath(runtime), "PYTHONMALLOC": "malloc",
            "ASAN_OPTIONS": options + "detect_leaks=0",
            "TSAN_OPTIONS": options + "suppressions=" + os.path.join(HERE, "tsan.supp"),
            "UBSAN_OPTIONS": options + "print_stacktrace=1",
            "STORM_AGENT": os.environ["PROBING_CHECKED_AGENT"]}


class Host(harness.Target):
    def __init__(self, seconds, runtime, reports, *more):
        super().__init__([find_python()[0], os.path.join(harness.TARGETS, "checked_host.py"),
                          os.environ["PROBING_CHECKED_AGENT"], str(seconds), *more],
                         env=environment(runtime, reports))


def ask(pid, home, ending, asked):
    while not ending.is_set():
        words = random.choice([
            ("eval", random.choice(CODES)), ("eval", "--main", "1"), ("eval", "--frame", "0", "1"),
            ("config", "eval.timeout=%d" % random.randint(1, 60)), ("config",),
            ("config", random.choice(["torch.collect=on", "torch.collect=off",
                                      "memory.interval=0.2"])),
            ("repl",), ("backtrace", "-a", "-l"),
            ("profile", "-n", "1", "--timeout", "2", "-o",
             os.path.join(home, "%x" % random.getrandbits(60))),
        ])
        # Its exit code is not our question: the agent comes and goes.
        tool = subprocess.Popen([harness.BIN, str(pid)] + list(words), stdin=subprocess.PIPE,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                env=dict(harness.ENV, PROBING_HOME=home))
        try:
            tool.communicate(b"x = 1\nx\nsys\n" if words == ("repl",) else None,
                             timeout=random.choice([0.2, 20]))
        except subprocess.TimeoutExpired:
            tool.kill()
            tool.communicate()
        asked.append(words[0])


def storm(seconds, runtime, reports, home, *more):
    """What went wrong, or None."""
    host = Host(seconds, runtime, reports, *more)
    ending, asked = threading.Event(), []
    threads = [threading.Thread(target=ask, args=(host.pid, home, ending, asked))
               for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(max(0, seconds - 1))
    ending.set()
    for thread in threads:
        thread.join(60)
    try:
        out, err = host.process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        return "the host hangs"
    finally:
        host.stop()
    print("%s: %d commands in %d s, the host ended with %d" % (
        " ".join(more) or "plain", len(asked), seconds, host.process.returncode))
    if host.process.returncode not in (0, 66) or not out.endswith(b"done\n"):
        return "the host ended with %d: %r" % (host.process.returncode, err[-2000:])
    return None if len(asked) > seconds / 2 else "only %d commands" % len(asked)


def storm_program(kind, runtime, reports):
    """What went wrong, or None."""
    target = storms.Storm(find_python()[0], kind, env=environment(runtime, reports))
    try:
        storms.at_once(target, 2, EVALS)
        storms.prompt(target, EVALS // 10)
        lines = target.end()
    except AssertionError as error:
        return "%s: %s" % (kind, error)
    finally:
        target.stop()
    print("%s: %d evaluations, %r" % (kind, EVALS, lines))
    return None if sum(lines.values()) > EVALS else kind + ": hardly a line"


def main(seconds, runtime):
    reports = tempfile.mkdtemp(prefix="probing-sanitize-")
    # The thread sanitizer cannot follow a process with threads that forks.
    kinds = [[] if "tsan" in runtime else ["fork"]] + ([["torch"]] if find_python()[1] else [])
    with tempfile.TemporaryDirectory() as home:
        wrong = [storm(seconds / len(kinds), runtime, reports, home, *kind) for kind in kinds]
    wrong += [storm_program(kind, runtime, reports)
              for kind in ["alone", "bars"] + ([] if "tsan" in runtime else ["many"])]
    harness.remove_stores()
    found = [report for path in sorted(glob.glob(os.path.join(reports, "report*")))
             for report in read(path)]
    print("%d reports" % len(found))
    for line in [line for line in wrong if line] + found[:5]:
        print(line[:8000])
    if found or any(wrong):
        print("all of it is in " + reports)
        return 1
    shutil.rmtree(reports)
    return 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2]))
