"""A worker sleeps far too long inside its own code."""
# expect: hang
import multiprocessing as mp
import time


def slow_item(i):
    if i == 3:
        time.sleep(5000)  # here
    return i


if __name__ == "__main__":
    with mp.get_context("fork").Pool(2) as pool:
        print("stall", flush=True)
        for r in pool.imap(slow_item, range(8)):
            pass
