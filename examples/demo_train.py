"""A small training job to look at: a main loop, a data loader thread, a metrics thread."""
import queue
import random
import sys
import threading
import time


class Model:
    def __init__(self, size):
        self.weights = [random.uniform(-1, 1) for _ in range(size)]

    def forward(self, batch):
        return [sum(w * x for w, x in zip(self.weights, row)) for row in batch]

    def backward(self, batch, outputs, targets, rate):
        for row, output, target in zip(batch, outputs, targets):
            error = output - target
            for i, x in enumerate(row):
                self.weights[i] -= rate * error * x


class DataLoader(threading.Thread):
    def __init__(self, batches, size):
        super().__init__(name="data-loader", daemon=True)
        self.batches, self.size = batches, size

    def run(self):
        while True:
            self.batches.put(self.load_batch(batch_size=16))

    def load_batch(self, batch_size):
        time.sleep(0.002)  # a slow disk
        rows = [[random.random() for _ in range(self.size)] for _ in range(batch_size)]
        return rows, [sum(row) for row in rows]


def report_metrics(history):
    while True:
        time.sleep(1)
        history[:] = history[-100:]


def train_step(model, batches, rate):
    batch, targets = batches.get()
    outputs = model.forward(batch)
    model.backward(batch, outputs, targets, rate)
    return sum((o - t) ** 2 for o, t in zip(outputs, targets)) / len(targets)


def main(seconds):
    model = Model(size=256)
    batches, history = queue.Queue(maxsize=4), []
    DataLoader(batches, size=256).start()
    threading.Thread(target=report_metrics, args=(history,), name="metrics", daemon=True).start()
    end, step = time.time() + seconds, 0
    while time.time() < end:
        history.append(train_step(model, batches, rate=0.0001))
        step += 1
        if step == 3:
            print("training", flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60)
