"""An attribute of an object grows by many small objects."""
# expect: leak
# wait: 25
import time


class Logger:
    def __init__(self):
        self.lines = []

    def log(self, i):
        self.lines.append({"step": i, "text": "x" * 50})  # here


logger = Logger()


def train():
    i = 0
    while True:
        for _ in range(1500):
            logger.log(i)
            i += 1
        time.sleep(0.05)


print("stall", flush=True)
train()
