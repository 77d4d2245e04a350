"""
What the torch collector costs a training loop on a GPU, and what it writes there.

    python3 tests/bench/torch_gpu.py [TOOL] [--seconds 60]

Needs the tool and a python3 with torch and CUDA. As in training.py two parts that noise does not
hide are added up: traced steps of the GPT of examples/gpt.py against those right beside them, and
what a step costs in which nothing is traced, from a training of one module. By the clock: backward
passes run in a thread of their own. Beside it the whole in turns of off and on. Ends some seconds
after the time given.
"""
import argparse
import os
import statistics
import tempfile
import time

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


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool", nargs="?", default=os.environ.get(
        "PROBING_BIN", os.path.join(pace.ROOT, "build", "release", "probing")))
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=60, help="of measuring, about")
    return parser.parse_args()


def start(args, folder, *options):
    return pace.Job(args.tool, folder, "--device", args.device, "--seconds", args.seconds * 2 + 20,
                    *options)


def idle_cost(args, folder):
    """Milliseconds that a step costs in which no module is traced."""
    pace.say("one module on %s: a step in which nothing is traced" % args.device)
    job = start(args, folder, "--least")
    try:
        job.probing("inject")
        job.turn(ALL, 2)
        turns = job.turns({"off": OFF, "on": IDLE}, args.seconds * LEAST, 0.12)
        times, _ = job.end()
    finally:
        job.kill()
    return pace.compare(times, turns, "on", "off", figure=statistics.median, how=pace.difference)


def watch(args, job):
    """Turns, the stretch with every other step traced, and the rows at the end of it."""
    job.probing("inject")
    # Costs are known and the rate has settled before anything is compared.
    job.turn(ALL, 2)
    pace.say("the GPT, in turns; status: " + job.status())
    turns = job.turns({"off": OFF, "on": ALL}, args.seconds * TURNS, 0.2)
    pace.say("%d turns; now every other step" % len(turns))
    half = job.turn(HALF, args.seconds * BESIDE)
    job.turn(ALL, 1)
    pace.say("status: " + job.status())
    return turns, half


def report(times, turns, half, idle):
    bare = pace.pooled(times, turns, "off")
    added = pace.traced_mean(times, *half)
    whole = pace.Figure([])
    whole.count = added.count
    for part in ("low", "middle", "high"):
        setattr(whole, part, 1 + (getattr(added, part) + getattr(idle, part)) / bare)
    print("every module of every step: %s of %.2f ms" % (whole, bare))
    print("  a step in which nothing is traced: %+.1f us (%+.1f to %+.1f of %d)" % (
        1000 * idle.middle, 1000 * idle.low, 1000 * idle.high, idle.count))
    print("  a traced one to those beside it: mean %+.1f us (%+.1f to %+.1f of %d), usual %s" % (
        1000 * added.middle, 1000 * added.low, 1000 * added.high, added.count,
        pace.traced(times, *half)))
    print("  in turns of off and on: " + str(pace.compare(times, turns, "on", "off")))


def main():
    args = parse()
    with tempfile.TemporaryDirectory() as folder:
        idle = idle_cost(args, folder)
        job = start(args, folder, "--width", args.width, "--length", 128, "--batch", 4)
        try:
            turns, half = watch(args, job)
            status = job.status()
            trace, logs = job.rows("python.torch_trace"), job.rows("python.training_logs")
            pace.say("%d and %d rows read; ends" % (len(trace), len(logs)))
            times, said = job.end()
        finally:
            job.kill()
    pace.say("ended after %d steps" % len(times))
    report(times, turns, half, idle)
    print("status: %s\n%s" % (status, said.strip()))
    show_rows(trace, logs)


if __name__ == "__main__":
    main()
