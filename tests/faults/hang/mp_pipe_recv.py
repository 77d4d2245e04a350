"""Both ends of a multiprocessing.Pipe wait for the other to send."""
# expect: hang
import multiprocessing as mp


def worker(conn):
    conn.recv()  # here
    conn.send(1)


if __name__ == "__main__":
    a, b = mp.Pipe()
    p = mp.get_context("fork").Process(target=worker, args=(b,))
    p.start()
    print("stall", flush=True)
    a.recv()  # here
