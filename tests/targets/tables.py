"""
A job that keeps tables of its own; what it needs of the package is on PYTHONPATH. Steps go on
until a file named as the only argument is there.
"""
import os
import sys
import time

import probing

steps = probing.table("steps", {"step": int, "loss": float, "phase": str, "good": bool})


@probing.span("work", kind="inner")
def work(step):
    time.sleep(0.001)
    probing.event("half", step=step)


def main(stop):
    step = 0
    print("ready", os.getpid())
    sys.stdout.flush()
    while not os.path.exists(stop):
        with probing.span("step", number=step):
            work(step)
        steps.append(step, 1.0 / (step + 1), "train", good=step % 2 == 0)
        step += 1
    print("bye", step)


if __name__ == "__main__":
    main(sys.argv[1])
