"""A consumer that takes five seconds for each item of a worker process."""
# expect: healthy
import multiprocessing as mp
import time


def produce(q):
    i = 0
    while True:
        q.put(b"x" * 100000)
        i += 1


if __name__ == "__main__":
    ctx = mp.get_context("fork")
    q = ctx.Queue(2)
    ctx.Process(target=produce, args=(q,), daemon=True).start()
    print("stall", flush=True)
    while True:
        q.get()
        end = time.time() + 3
        n = 0
        while time.time() < end:
            n += 1
