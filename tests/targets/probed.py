"""A job to evaluate code in. It never imports threading by itself; `finish = True` ends it."""
import os
import sys
import time

loss = 0.0234
finish = False
noise = "noise\n"
todo = []  # functions for the main thread


def work(number):
    secret = number * 2
    while not finish:
        time.sleep(0.01)  # LINE:work
        if todo:
            todo.pop()()
    return secret


def busy(number):
    while not finish:
        number += 1
    return number


def chatter():
    """Another thread that prints all the time."""
    while not finish:
        sys.stderr.write(noise)
        time.sleep(0.001)


def fork():
    """A worker, as multiprocessing makes it; it leaves without saying goodbye."""
    global child
    child = os.fork()
    if child == 0:
        work(5)
        os._exit(7)


def main(mode):
    if mode == "chatter":
        import threading
        threading.Thread(target=chatter, name="chatter", daemon=True).start()
    print("ready", os.getpid())
    sys.stdout.flush()
    if mode == "exec":
        while not finish:
            time.sleep(0.01)
        os.execv(sys.executable, [sys.executable, __file__, "idle"])
    return busy(0) if mode == "busy" else work(21)  # LINE:main


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "idle")
    print("bye")
