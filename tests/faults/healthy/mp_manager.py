"""A manager process with a shared dict, main polls it each second."""
# expect: healthy
import multiprocessing as mp
import time

if __name__ == "__main__":
    m = mp.get_context("fork").Manager()
    d = m.dict()
    print("stall", flush=True)
    while True:
        d["n"] = d.get("n", 0) + 1
        time.sleep(1)
