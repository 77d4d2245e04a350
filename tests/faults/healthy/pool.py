"""A pool of processes that works."""
# expect: healthy
import multiprocessing as mp


def work(i):
    return sum(k * k for k in range(200000))


if __name__ == "__main__":
    with mp.get_context("fork").Pool(2) as pool:
        print("stall", flush=True)
        while True:
            pool.map(work, range(16))
