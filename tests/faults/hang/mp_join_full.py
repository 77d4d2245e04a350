"""join() of a process that cannot end: its queue is not emptied."""
# expect: hang
import multiprocessing as mp


def work(q):
    q.put("x" * 10_000_000)


if __name__ == "__main__":
    ctx = mp.get_context("fork")
    q = ctx.Queue()
    p = ctx.Process(target=work, args=(q,))
    p.start()
    print("stall", flush=True)
    p.join()  # here
