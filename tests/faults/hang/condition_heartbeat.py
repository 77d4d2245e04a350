"""A notify() before the wait(): the trainer sleeps on; so does a heartbeat."""
# expect: hang
import threading
import time


class Mailbox:
    def __init__(self):
        self.cond = threading.Condition()
        self.items = []

    def push(self, x):
        with self.cond:
            self.items.append(x)
            self.cond.notify()

    def pop(self):
        with self.cond:
            self.cond.wait()  # here
            return self.items.pop()


def heartbeat():
    while True:
        time.sleep(1.0)


def main():
    threading.Thread(target=heartbeat, daemon=True, name="heartbeat").start()
    box = Mailbox()
    t = threading.Thread(target=box.push, args=({"x": 1},))
    t.start()
    t.join()
    print("stall", flush=True)
    print(box.pop())


main()
