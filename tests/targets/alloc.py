"""Allocates as it is told on stdin: keep, drop, fork, trace, untrace, storm; answers a line."""
import ctypes
import os
import select
import sys
import threading

kept = {}
library = None


def small(count):
    return [bytes(200) for _ in range(count)]


def large(count):
    return [bytearray(300000) for _ in range(count)]


def grow(count):
    rows = []
    for i in range(count):
        rows.append((i, str(i)))
    return rows


def storm(rounds):
    for i in range(rounds):
        rows = grow(200)
        rows.append(large(1))
        rows.append(small(20))


def hold():
    library.hold(400, ctypes.c_size_t(100000))


def c_storm(rounds):
    library.churn(rounds)


def in_threads(run, rounds):
    threads = [threading.Thread(target=run, args=(rounds,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def fork():
    pid = os.fork()
    if pid == 0:
        kept["small"] = small(100000)
        kept.pop("large", None)
        print("child", os.getpid(), flush=True)
        next_command()
        os._exit(0)
    os.waitpid(pid, 0)


def next_command():
    """One line; between two instructions now and then, where 3.6 can be entered."""
    while not select.select([0], [], [], 0.05)[0]:
        pass
    return os.read(0, 512).decode().strip()


def main():
    global library
    print("ready", os.getpid(), flush=True)
    while True:
        command = next_command()
        if not command:
            break
        if command == "keep":
            kept["small"] = small(200000)
            kept["large"] = large(200)
            kept["rows"] = grow(50000)
        elif command == "drop":
            kept.clear()
        elif command == "fork":
            fork()
        elif command == "trace":
            import tracemalloc
            tracemalloc.start()
        elif command == "untrace":
            sys.modules["tracemalloc"].stop()
        elif command == "storm":
            in_threads(storm, 60)
        elif command == "cstorm":
            in_threads(c_storm, 200000)
        elif command == "hold":
            hold()
        elif command == "release":
            library.release()
        elif command.startswith("load "):
            library = ctypes.CDLL(command[5:])
        untouched = library.untouched() if library else 1
        print("done", sys.getsizeof(bytes(200)), sys.getsizeof(bytearray(300000)), untouched,
              flush=True)


main()
