"""The program is done, but a non-daemon thread waits for ever."""
# expect: hang
import queue
import threading

q = queue.Queue()


def writer():
    while True:
        item = q.get()  # here
        if item is None:
            return


threading.Thread(target=writer).start()
print("stall", flush=True)
