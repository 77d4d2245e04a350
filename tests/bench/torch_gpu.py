"""
What the torch collector costs a training loop on a GPU, where that goes, and what it writes there.

    python3 tests/bench/torch_gpu.py [TOOL] [--seconds 35]

Needs the tool and a python3 with torch and CUDA. One process trains the GPT of examples/gpt.py; the
collector is switched while it runs, and turns are compared with their neighbours. Ends some seconds
after the time given.
"""
import argparse
import os
import tempfile
import time

import pace

# Each one has what the one before it has, and more.
STATES = {
    "bare": ["torch.collect=off"],
    "hooks": ["torch.collect=on", "torch.sample_rate=0"],
    "modules": ["torch.collect=on", "torch.sample_rate=1", "torch.gpu=off"],
    "all": ["torch.collect=on", "torch.sample_rate=1", "torch.gpu=on"],
}
HALF = ["torch.collect=on", "torch.sample_rate=0.5", "torch.gpu=on"]


def report(times, turns, half):
    names = list(dict.fromkeys(turn[0] for turn in turns))
    for name in names:
        print("%-8s median %.3f ms a step" % (name, pace.pooled(times, turns, name)))
    for name in names[1:]:
        print("%-8s to bare: %s" % (name, pace.compare(times, turns, name, "bare")))
        medians = pace.compare(times, turns, name, "bare", figure=pace.statistics.median)
        print("%-8s to bare, medians of turns: %s" % (name, medians))
        computed = pace.compare(times, turns, name, "bare", by=pace.COMPUTED)
        print("%-8s to bare, what the thread computes: %s" % (name, computed))
    for name, base in zip(names[2:], names[1:]):
        print("%-8s to %s: %s" % (name, base, pace.compare(times, turns, name, base)))
    print("a traced step to those beside it: %s" % pace.traced(times, *half))


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
    parser.add_argument("--seconds", type=float, default=35, help="of measuring, about")
    parser.add_argument("--states", default=",".join(STATES), help="bare and some of the others")
    parser.add_argument("--share", type=float, default=0.45,
                        help="of the time for these states, the rest is for every other step")
    parser.add_argument("--each", type=float, default=0.2, help="seconds of a turn, at least")
    return parser.parse_args()


def watch(job, args):
    """Turns, the stretch with every other step traced, and the rows at the end of it."""
    states = {name: STATES[name] for name in args.states.split(",")}
    pace.say("runs; to be measured in the states " + ", ".join(states))
    time.sleep(1)
    job.probing("inject")
    # Costs are known and the rate has settled before anything is compared.
    job.turn(STATES["all"], 2)
    pace.say("status: " + job.status())
    turns = job.turns(states, args.seconds * args.share, args.each)
    pace.say("%d turns; now every other step" % len(turns))
    half = job.turn(HALF, args.seconds * (1 - args.share))
    job.turn(STATES["all"], 1)
    pace.say("status: " + job.status())
    print("status: " + job.status())
    return turns, half


def main():
    args = parse()
    pace.say("starts a process that trains on " + args.device)
    with tempfile.TemporaryDirectory() as folder:
        job = pace.Job(args.tool, folder, "--width", args.width, "--length", 128, "--batch", 4,
                       "--device", args.device, "--seconds", args.seconds * 2 + 20)
        try:
            turns, half = watch(job, args)
            trace, logs = job.rows("python.torch_trace"), job.rows("python.training_logs")
            pace.say("%d and %d rows read; ends" % (len(trace), len(logs)))
            times, said = job.end()
        finally:
            job.kill()
    pace.say("ended after %d steps" % len(times))
    report(times, turns, half)
    print(said.strip())
    show_rows(trace, logs)


if __name__ == "__main__":
    main()
