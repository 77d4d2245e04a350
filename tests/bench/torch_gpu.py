"""
What the torch collector costs a training loop on a GPU: rows(quick) for the table of run.py. By
itself it shows as well what the collector wrote:

    PROBING_BIN=build/release/probing python3 tests/bench/torch_gpu.py [--seconds 60]

Needs a python3 whose torch has CUDA. As in training.py two parts that noise does not hide are added
up: traced steps of the GPT of examples/gpt.py against those right beside them, and what a step
costs in which nothing is traced, from a training of one module. By the clock: backward passes run
in a thread of their own. Beside it the whole in turns of off and on.
"""
import argparse
import importlib.util
import statistics
import subprocess
import sys
import tempfile

import measure
import pace

OFF = ["torch.collect=off"]
IDLE = ["torch.collect=on", "torch.sample_rate=0"]
ALL = ["torch.collect=on", "torch.sample_rate=1", "torch.gpu=on"]
HALF = ["torch.collect=on", "torch.sample_rate=0.5", "torch.gpu=on"]
# Parts of the time: steps of one module, turns of off and on, every other step.
LEAST, TURNS, BESIDE = 0.15, 0.2, 0.65


def show(rows, title, count=6):
    print("%s: %d rows" % (title, len(rows)))
    for row in rows[:count]:
        print("  " + ", ".join("%s=%s" % (name, "%.4g" % value if isinstance(value, float)
                                          else value)
                               for name, value in row.items() if name != "timestamp"))


def show_rows(trace, logs):
    show(trace[-120:], "last rows of python.torch_trace")
    timed = [row for row in trace if row["gpu_ms"] is not None]
    show([row for row in timed if row["stage"] != "forward" or row["module"] == "GPT"],
         "with gpu_ms (%d of %d)" % (len(timed), len(trace)), 9)
    show([row for row in trace if row["allocated_delta"]], "with allocated_delta", 6)
    show([row for row in logs if row["step"] and (row["step"] + 1) % 20 == 0][-3:],
         "python.training_logs", 3)
    print("logs without a loss: %d of %d" % (sum(row["loss"] is None for row in logs), len(logs)))


def start(folder, device, seconds, *options):
    return pace.Job(measure.tool_path(), folder, "--device", device, "--seconds",
                    seconds * 2 + 20, *options)


def idle_cost(folder, device, seconds):
    """Milliseconds that a step costs in which no module is traced."""
    pace.say("one module on %s: a step in which nothing is traced" % device)
    job = start(folder, device, seconds, "--least")
    try:
        job.probing("inject")
        job.turn(ALL, 2)
        turns = job.turns({"off": OFF, "on": IDLE}, seconds * LEAST, 0.12)
        times, _ = job.end()
    finally:
        job.kill()
    return pace.compare(times, turns, "on", "off", figure=statistics.median, how=pace.difference)


class Watched:
    """The GPT, with the collector off and on in turns and then at every other step."""

    def __init__(self, folder, device, seconds, width):
        job = start(folder, device, seconds, "--width", width, "--length", 128, "--batch", 4)
        try:
            job.probing("inject")
            # Costs are known and the rate has settled before anything is compared.
            job.turn(ALL, 2)
            pace.say("the GPT, in turns; status: " + job.status())
            self.turns = job.turns({"off": OFF, "on": ALL}, seconds * TURNS, 0.2)
            pace.say("%d turns; now every other step" % len(self.turns))
            self.half = job.turn(HALF, seconds * BESIDE)
            job.turn(ALL, 1)
            self.status = job.status()
            self.trace = job.rows("python.torch_trace")
            self.logs = job.rows("python.training_logs")
            pace.say("status: %s; ends" % self.status)
            self.times, self.said = job.end()
        finally:
            job.kill()

    def cost(self, idle):
        """
        The cost as a figure, its parts in words. Steps in which more is looked at are few in all,
        and come among the traced ones twice as often when only every other one is: no less than
        the true cost.
        """
        bare = pace.pooled(self.times, self.turns, "off")
        added = pace.traced_mean(self.times, *self.half)
        whole = pace.Figure([])
        whole.count = added.count
        for part in ("low", "middle", "high"):
            setattr(whole, part, 1 + (getattr(added, part) + getattr(idle, part)) / bare)
        words = ("bare %.1f ms a step; a traced step to those beside it %+.0f us (%+.0f to %+.0f), "
                 "a usual one %s, an untraced one %+.0f us (%+.0f to %+.0f); in turns %s; %s")
        return whole, words % (
            bare, 1000 * added.middle, 1000 * added.low, 1000 * added.high,
            pace.traced(self.times, *self.half),
            1000 * idle.middle, 1000 * idle.low, 1000 * idle.high,
            pace.compare(self.times, self.turns, "on", "off"), self.status)


def measured(device, seconds, width=768):
    with tempfile.TemporaryDirectory() as folder:
        idle = idle_cost(folder, device, seconds)
        watched = Watched(folder, device, seconds, width)
    return watched, watched.cost(idle)


def has_gpu():
    if importlib.util.find_spec("torch") is None:
        return False
    code = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def rows(quick):
    what = "torch on a GPU, 113 modules, every module of every step"
    if not has_gpu():
        yield what, "+1 %", "torch has no GPU here", "", None, ""
        return
    figure, words = measured("cuda", 20 if quick else 200)[1]
    yield what, "+1 %", str(figure), "", figure.holds(1.01), words


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=60, help="of measuring, about")
    args = parser.parse_args()
    watched, (figure, words) = measured(args.device, args.seconds, args.width)
    print("%s\n  %s" % (figure, words.replace("; ", "\n  ")))
    print(watched.said.strip())
    show_rows(watched.trace, watched.logs)


if __name__ == "__main__":
    main()
