"""
What the torch collector costs a training loop on a GPU, and what it writes there.

    python3 tests/bench/torch_gpu.py [TOOL]

Needs the tool and a python3 with torch and CUDA. One process trains the GPT of examples/gpt.py; the
collector is switched off and on in turn, and steps of neighbouring turns are compared.
"""
import argparse
import os
import statistics
import tempfile
import time

import pace


def report(times, turns, bare):
    found = [pace.steps(times, *turn) for turn in turns]
    print("median ms a step: %.2f before injection, %.2f off, %.2f on" % tuple(
        statistics.median(each) for each in (pace.steps(times, *bare), sum(found[::2], []),
                                             sum(found[1::2], []))))
    for name, figure in (("mean", statistics.mean), ("median", statistics.median)):
        ratios = pace.ratios(times, turns, figure)
        print("on / off by the turn's %s: median %.4f of %d, middle half %.4f to %.4f" % (
            name, statistics.median(ratios), len(ratios), ratios[len(ratios) // 4],
            ratios[len(ratios) * 3 // 4]))


def show(rows, title, count=6):
    print("%s: %d rows" % (title, len(rows)))
    for row in rows[:count]:
        print("  " + ", ".join("%s=%s" % (name, "%.4g" % value if isinstance(value, float)
                                          else value)
                               for name, value in row.items() if name != "timestamp"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool", nargs="?",
                        default=os.path.join(pace.ROOT, "build", "dev", "probing"))
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--turns", type=int, default=121)
    parser.add_argument("--seconds", type=float, default=0.4)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        job = pace.Job(args.tool, folder, "--width", args.width, "--length", 128, "--batch", 4,
                       "--device", args.device)
        time.sleep(4)
        bare = (time.time() - 2, time.time())
        job.probing("inject")
        turns = job.turns(args.turns, args.seconds)
        job.probing("config", "torch.collect=on")
        time.sleep(4)
        print("status: " + job.status())
        trace, logs = job.rows("python.torch_trace"), job.rows("python.training_logs")
        times, said = job.end()
        report(times, turns, bare)
        print(said.strip())
        show(trace[-120:], "last rows of python.torch_trace")
        timed = [row for row in trace if row["gpu_ms"] is not None]
        show([row for row in timed if row["stage"] != "forward" or row["module"] == "GPT"],
             "with gpu_ms (%d in all)" % len(timed), 9)
        show([row for row in trace if row["allocated_delta"]], "with allocated_delta", 6)
        show([row for row in logs if row["step"] and (row["step"] + 1) % 20 == 0][-3:],
             "python.training_logs", 3)
        print("logs without a loss: %d of %d" % (sum(row["loss"] is None for row in logs),
                                                 len(logs)))


if __name__ == "__main__":
    main()
