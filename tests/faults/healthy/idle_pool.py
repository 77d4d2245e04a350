"""A pool that waits for its next job while main sleeps."""
# expect: healthy
import multiprocessing as mp
import time


def work(i):
    return i


if __name__ == "__main__":
    with mp.get_context("fork").Pool(2) as pool:
        pool.map(work, range(8))
        print("stall", flush=True)
        while True:
            time.sleep(30)
