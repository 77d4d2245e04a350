"""A worker waits for a lock that the parent holds while the parent waits for the worker."""
# expect: hang
import multiprocessing as mp


def work(lock, q):
    with lock:  # here
        q.put(1)


if __name__ == "__main__":
    ctx = mp.get_context("fork")
    lock, q = ctx.Lock(), ctx.Queue()
    lock.acquire()
    p = ctx.Process(target=work, args=(lock, q))
    p.start()
    print("stall", flush=True)
    q.get()  # here
