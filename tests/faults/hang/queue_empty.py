"""The producer ended without the last item."""
# expect: hang
import queue
import threading

q = queue.Queue()


def produce():
    for i in range(3):
        q.put(i)


threading.Thread(target=produce).start()


def consume():
    while True:
        item = q.get()  # here
        if item is None:
            return


print("stall", flush=True)
consume()
