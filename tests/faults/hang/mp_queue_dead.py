"""A worker process was killed; the parent waits for its result."""
# expect: hang
import multiprocessing as mp
import os
import signal
import time


def work(q):
    time.sleep(100)
    q.put(1)


if __name__ == "__main__":
    ctx = mp.get_context("fork")
    q = ctx.Queue()
    p = ctx.Process(target=work, args=(q,))
    p.start()
    time.sleep(0.3)
    os.kill(p.pid, signal.SIGKILL)
    print("stall", flush=True)
    q.get()  # here
