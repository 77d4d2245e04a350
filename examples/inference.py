"""
A little model server: requests come in, a worker answers them in batches.

    python examples/inference.py

Some requests are much longer than others; which ones is for the reader to find out.
"""
import argparse
import os
import queue
import random
import threading
import time

import torch

from gpt import GPT


def ask(requests, rate, stop):
    """Clients: about `rate` requests a second, one in twenty of them long."""
    chance = random.Random(0)
    while not stop.is_set():
        length = 64 if chance.random() < 0.05 else chance.randint(4, 12)
        requests.put((time.time(), torch.randint(0, 256, (1, length))))
        time.sleep(chance.expovariate(rate))


@torch.no_grad()
def answer(model, requests, limit):
    served, slowest = 0, 0.0
    while served < limit:
        asked, ids = requests.get()
        for _ in range(4):
            token = model(ids)[:, -1].argmax(-1, keepdim=True)
            ids = torch.cat([ids, token], dim=1)[:, -64:]
        served += 1
        slowest = max(slowest, time.time() - asked)
        if served % 100 == 0:
            print("%d answers, slowest %.0f ms" % (served, slowest * 1000), flush=True)
            slowest = 0.0


def main():
    parser = argparse.ArgumentParser(description="a little model server")
    parser.add_argument("--rate", type=float, default=20, help="requests a second")
    parser.add_argument("--requests", type=int, default=10**9)
    args = parser.parse_args()
    print("process %d" % os.getpid(), flush=True)
    torch.manual_seed(0)
    model = GPT().eval()
    requests, stop = queue.Queue(maxsize=100), threading.Event()
    client = threading.Thread(target=ask, args=(requests, args.rate, stop), name="clients",
                              daemon=True)
    client.start()
    answer(model, requests, args.requests)
    stop.set()


if __name__ == "__main__":
    main()
