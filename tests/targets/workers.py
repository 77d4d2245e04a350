"""Workers of multiprocessing, started in the way that is named first."""
import multiprocessing
import os
import sys
import time


def work(number, queue):
    queue.put(os.getpid())
    time.sleep(100000 + number)  # LINE:work


def main():
    context = multiprocessing.get_context(sys.argv[1])
    queue = context.Queue()
    workers = [context.Process(target=work, args=(number, queue)) for number in range(2)]
    for worker in workers:
        worker.daemon = True
        worker.start()
    pids = sorted(queue.get() for _ in workers)
    print("ready", os.getpid(), *pids)
    sys.stdout.flush()
    time.sleep(100000)  # LINE:main


if __name__ == "__main__":
    main()
