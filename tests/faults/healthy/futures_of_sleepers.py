"""The main thread waits for futures whose jobs poll something with sleeps."""
# expect: healthy
import time
from concurrent.futures import ThreadPoolExecutor


def job(n):
    for i in range(n):
        time.sleep(0.4)
    return n


with ThreadPoolExecutor(2) as pool:
    print("stall", flush=True)
    print(sum(pool.map(job, [1000, 1000])))
