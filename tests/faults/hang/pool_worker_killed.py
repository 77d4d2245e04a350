"""A worker of a Pool was killed with its task; its result never comes."""
# expect: hang
import multiprocessing as mp
import os
import signal
import time


def task(i):
    if i == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.01)
    return i


if __name__ == "__main__":
    with mp.get_context("fork").Pool(2) as pool:
        print("stall", flush=True)
        pool.map(task, range(6), chunksize=1)  # here
