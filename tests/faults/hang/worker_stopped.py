"""A worker process is stopped by a signal."""
# expect: hang
import multiprocessing as mp
import os
import signal
import time


def work(conn):
    while True:
        conn.send(sum(range(1000)))  # here
        time.sleep(0.01)  # here


if __name__ == "__main__":
    ctx = mp.get_context("fork")
    a, b = ctx.Pipe()
    p = ctx.Process(target=work, args=(b,))
    p.start()
    b.close()
    for i in range(20):
        a.recv()
    os.kill(p.pid, signal.SIGSTOP)
    print("stall", flush=True)
    while True:
        a.recv()  # here
