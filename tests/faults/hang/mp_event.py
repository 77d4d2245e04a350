"""A worker waits for an Event between processes; the parent joins it first."""
# expect: hang
import multiprocessing as mp


def worker(ev):
    ev.wait()  # here


if __name__ == "__main__":
    ctx = mp.get_context("fork")
    ev = ctx.Event()
    p = ctx.Process(target=worker, args=(ev,))
    p.start()
    print("stall", flush=True)
    p.join()  # here
    ev.set()
