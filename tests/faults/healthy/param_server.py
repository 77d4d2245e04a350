"""A parameter server that waits for clients on this machine, which work."""
# expect: healthy
import multiprocessing as mp
import time


def client(q, r):
    n = 0
    while True:
        for _ in range(200):
            n += sum(range(1000))
        time.sleep(0.2)
        q.put(n)


if __name__ == "__main__":
    ctx = mp.get_context("fork")
    q, r = ctx.Queue(), ctx.Queue()
    for _ in range(2):
        ctx.Process(target=client, args=(q, r), daemon=True).start()
    print("stall", flush=True)
    while True:
        q.get()
