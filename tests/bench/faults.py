"""The suite of faults: programs that hang, are slow, leak or crash, and healthy ones; the verdict?

A program of tests/faults says what is expected in comments:
    # expect: hang | slow | leak | values | crash | healthy
    # class: TEXT       what of that kind, where only one answer is right
    # ranks: N          started by torchrun with N processes
    # rank: R           which of them is to blame
    # line: none        no line is to blame
    # probes: yes       probes are put in when the fault has begun, with reports of crashes
    # needs: cuda | root   left out where torch has no GPU, or by others than root
and marks lines that may be blamed with "# here". It prints "stall" when the fault begins. One that
is to crash then reads a byte from its standard input, which comes when the probes are in.

    PROBING_BIN=build/dev/probing build/venv/bin/python tests/bench/faults.py [-j N] [NAME...]

--folder has the same question asked of other programs. As a part of run.py: rows(quick).
"""
import argparse
import concurrent.futures
import functools
import glob
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "faults")


class Fault:
    def __init__(self, path):
        self.path = path
        self.name = "/".join(path.split(os.sep)[-2:])[:-3]
        text = open(path).read()
        self.lines = text.splitlines()

        def word(key, default=None):
            found = re.search(r"^# %s: (.*)$" % key, text, re.M)
            return found.group(1).strip() if found else default
        self.expect = word("expect")
        self.ranks = int(word("ranks", "0"))
        self.rank = word("rank")
        self.wait = float(word("wait", "0"))
        self.needs = word("needs")
        self.sort = word("class")
        self.probes = word("probes") == "yes"
        self.any_line = word("line") == "none"


def names(wanted=(), folder=FOLDER):
    paths = sorted(glob.glob(os.path.join(folder, "*", "*.py")))
    every = [Fault(p) for p in paths if not os.path.basename(p).startswith("_")]
    found = [f for f in every if f.expect and (not wanted or any(w in f.name for w in wanted))]
    return [f for f in found if is_there(f.needs)]


def is_there(what):
    return has_cuda() if what == "cuda" else os.geteuid() == 0 if what == "root" else True


@functools.lru_cache()
def has_cuda():
    look = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", look], capture_output=True).returncode == 0


def command(fault):
    if not fault.ranks:
        return [sys.executable, fault.path]
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
            str(fault.ranks), fault.path]


def start(fault):
    env = dict(os.environ, OMP_NUM_THREADS="1", TORCH_CPP_LOG_LEVEL="ERROR", PYTHONUNBUFFERED="1")
    log = tempfile.TemporaryFile("w+")
    read, write = os.pipe()  # a standard input that never ends and says nothing
    p = subprocess.Popen(command(fault), stdout=log, stderr=subprocess.STDOUT, env=env,
                         stdin=read, start_new_session=True)
    os.close(read)
    p.write = write
    end = time.time() + 90
    while time.time() < end and p.poll() is None:
        log.seek(0)
        if log.read().count("stall") >= max(fault.ranks, 1):
            return p, log
        time.sleep(0.05)
    log.seek(0)
    stop(p)
    raise RuntimeError("%s did not come to its fault: %s" % (fault.name, log.read()[-400:]))


def family(pid):
    """A process and all that it started: the ranks of a job have sessions of their own."""
    found = [pid]
    for one in found:
        try:
            for task in os.listdir("/proc/%d/task" % one):
                children = open("/proc/%d/task/%s/children" % (one, task)).read()
                found += [int(c) for c in children.split()]
        except OSError:
            pass
    return found


def stop(p):
    os.close(p.write)
    for pid in family(p.pid)[1:]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    try:
        os.killpg(p.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    p.wait()


def marked(verdict):
    try:
        lines = open(verdict["file"]).read().splitlines()
        return "# here" in lines[verdict["line"] - 1]
    except (OSError, TypeError, IndexError):
        return False


def judge(fault, answer):
    """None when right, else what is wrong."""
    verdicts = answer["verdicts"]
    if fault.expect == "healthy":
        return None if answer["healthy"] else "verdict: %s" % verdicts[0]["what"]
    if not verdicts:
        return "no verdict"
    v = verdicts[0]
    if v["kind"] != fault.expect:
        return "kind %s (%s)" % (v["kind"], v["class"])
    if fault.sort and fault.sort not in v["class"]:
        return "class %s" % v["class"]
    rank = str(v["ranks"][0]) if v["ranks"] else "none"
    if fault.rank is not None and rank not in fault.rank.split(","):
        return "rank %s: %s" % (v["ranks"], v["what"])
    if not fault.any_line and not marked(v):
        return "line %s:%s (%s)" % (os.path.basename(str(v["file"])), v["line"], v["class"])
    return None


def script_pids(fault, p):
    """The processes that run the program itself: all ranks, or the one."""
    if not fault.ranks:
        return [p.pid]
    found = []
    for pid in family(p.pid)[1:]:
        try:
            words = open("/proc/%d/cmdline" % pid).read().split("\0")
        except OSError:
            continue
        if fault.path in words and "torch.distributed.run" not in words:
            found.append(pid)
    return found


def put_probes(fault, p, binary):
    for pid in script_pids(fault, p):
        subprocess.run([binary, str(pid), "inject", "-c"], capture_output=True, timeout=120,
                       check=True)
        sql = "SELECT state FROM probing.agents WHERE collector = 'crash' AND state = 'on'"
        end = time.time() + 60
        while time.time() < end:
            r = subprocess.run([binary, str(pid), "query", "-f", "json", sql],
                               capture_output=True, text=True, timeout=120)
            if r.returncode == 0 and json.loads(r.stdout):
                break
            time.sleep(0.2)


def come_to_it(fault, p, binary):
    """What the fault needs after it has begun."""
    if fault.probes:
        put_probes(fault, p, binary)
    if fault.expect == "crash":
        if not fault.probes:  # a node sees how processes end
            subprocess.run([binary, "query", "SELECT 1"], capture_output=True, timeout=60)
            time.sleep(3)
        os.write(p.write, b"x" * max(fault.ranks, 1))
        p.wait(90)


def try_one(fault, binary):
    p, log = start(fault)
    try:
        come_to_it(fault, p, binary)
        began = time.time()
        time.sleep(fault.wait)
        target = "job:" + os.path.basename(fault.path) if fault.ranks else str(p.pid)
        r = subprocess.run([binary, target, "diagnose", "-f", "json"], capture_output=True,
                           text=True, timeout=120)
        seconds = time.time() - began
        if r.returncode not in (0, 10):
            return fault, "exit %d: %s" % (r.returncode, r.stderr.strip()), seconds, None
        answer = json.loads(r.stdout)
        wrong = judge(fault, answer)
        if (r.returncode == 10) == answer["healthy"]:
            wrong = "exit code %d" % r.returncode
        return fault, wrong, seconds, answer
    finally:
        stop(p)
        log.close()


def try_all(faults, binary, jobs=1):
    """Each fault with what is wrong of its verdict (None: nothing), seconds and the answer."""
    with tempfile.TemporaryDirectory() as home:
        kept = os.environ.get("PROBING_HOME")
        os.environ["PROBING_HOME"] = home
        try:
            with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
                running = [(f, pool.submit(try_one, f, binary)) for f in faults]
                for fault, one in running:
                    try:
                        yield one.result()
                    except (RuntimeError, subprocess.SubprocessError) as e:
                        yield fault, "%s" % e, 0.0, None
        finally:
            subprocess.run([binary, "serve", "--stop"], capture_output=True)
            del os.environ["PROBING_HOME"]
            if kept is not None:
                os.environ["PROBING_HOME"] = kept


def say(fault, wrong, seconds, answer, reasons=False):
    v = (answer or {}).get("verdicts") or [{}]
    print("%-28s %-34s %-6s %5.1f s  %s" % (
        fault.name, v[0].get("class", "healthy" if answer else "-"),
        "right" if wrong is None else "WRONG", seconds, wrong or ""), flush=True)
    if reasons and v[0]:
        print("    %s\n    %s\n    at %s:%s" % (v[0]["what"], v[0]["why"], v[0]["file"],
                                              v[0]["line"]), flush=True)


# Of the whole table a line for each folder, and one in five programs, for a quick look.
QUICK = 5


def rows(quick):
    binary = os.environ.get("PROBING_BIN", "probing")
    kinds = {}
    for fault, wrong, seconds, answer in try_all(names()[::QUICK if quick else 1], binary):
        say(fault, wrong, seconds, answer)
        kinds.setdefault(fault.name.split("/")[0], []).append((fault, wrong, seconds))
    every = [one for kind, ones in kinds.items() if kind != "healthy" for one in ones]
    table = [("faults: " + kind, ones, 1.0 if kind == "healthy" else 0.95)
             for kind, ones in sorted(kinds.items())]
    for what, ones, bar in table + [("faults, all kinds", every, 0.95)]:
        right = sum(wrong is None for _, wrong, _ in ones)
        yield (what, "no verdict" if "healthy" in what else "95 % right",
               "%d of %d" % (right, len(ones)), "", right >= bar * len(ones),
               " ".join(f.name for f, wrong, _ in ones if wrong))
    hangs = [s for f, wrong, s in every if f.expect == "hang" and wrong is None]
    if hangs:
        yield ("  stall to verdict, hangs", "15 s", "%.1f s median, %.1f s at most" % (
            statistics.median(hangs), max(hangs)), "", max(hangs) <= 15)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-j", type=int, default=1)
    parser.add_argument("-v", action="store_true")
    parser.add_argument("--folder", default=FOLDER)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    right = total = 0
    faults = names(args.names, args.folder)
    for one in try_all(faults, os.environ.get("PROBING_BIN", "probing"), args.j):
        total += 1
        right += one[1] is None
        say(*one, reasons=args.v)
    print("%d of %d right" % (right, total))
    return right != total


if __name__ == "__main__":
    sys.exit(main())
