"""A barrier for three, but only two processes."""
# expect: hang
import multiprocessing as mp


def worker(bar):
    bar.wait()  # here


if __name__ == "__main__":
    ctx = mp.get_context("fork")
    bar = ctx.Barrier(3)
    ps = [ctx.Process(target=worker, args=(bar,)) for _ in range(2)]
    for p in ps:
        p.start()
    print("stall", flush=True)
    for p in ps:
        p.join()  # here
