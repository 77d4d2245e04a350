"""Twenty threads, each blocked in another kind of call."""
import os
import queue
import select
import signal
import socket
import sys
import threading
import time

FOREVER = 100000


def wait_sleep():
    time.sleep(FOREVER)  # LINE:wait_sleep


def wait_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()  # LINE:wait_lock


def wait_lock_timed():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire(True, FOREVER)  # LINE:wait_lock_timed


def wait_rlock(lock):
    with lock:  # LINE:wait_rlock
        pass


def wait_condition():
    condition = threading.Condition()
    with condition:
        condition.wait()  # LINE:wait_condition


def wait_condition_timed():
    condition = threading.Condition()
    with condition:
        condition.wait(FOREVER)  # LINE:wait_condition_timed


def wait_event():
    threading.Event().wait()  # LINE:wait_event


def wait_semaphore():
    threading.Semaphore(0).acquire()  # LINE:wait_semaphore


def wait_barrier():
    threading.Barrier(2).wait()  # LINE:wait_barrier


def wait_queue():
    queue.Queue().get()  # LINE:wait_queue


def wait_join(other):
    other.join()  # LINE:wait_join


def wait_read():
    reader, _ = os.pipe()
    os.read(reader, 1)  # LINE:wait_read


def wait_select():
    reader, _ = os.pipe()
    select.select([reader], [], [])  # LINE:wait_select


def wait_poll():
    reader, _ = os.pipe()
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    poll.poll()  # LINE:wait_poll


def wait_epoll():
    reader, _ = os.pipe()
    epoll = select.epoll()
    epoll.register(reader, select.EPOLLIN)
    epoll.poll()  # LINE:wait_epoll


def wait_recv():
    left, _keep = socket.socketpair()
    left.recv(1)  # LINE:wait_recv


def wait_accept():
    server = socket.socket(socket.AF_UNIX)
    server.bind("\0probing-test-%d" % os.getpid())
    server.listen(1)
    server.accept()  # LINE:wait_accept


def wait_child(pid):
    os.waitpid(pid, 0)  # LINE:wait_child


def wait_signal():
    signal.sigwait([signal.SIGUSR2])  # LINE:wait_signal


def wait_nested():
    def inner():
        time.sleep(FOREVER)  # LINE:inner

    inner()  # LINE:wait_nested


def start(target, daemon, *args):
    thread = threading.Thread(target=target, args=args, name=target.__name__.replace("_", "-"))
    thread.daemon = daemon
    thread.start()
    return thread


def child():
    pid = os.fork()
    if pid == 0:
        time.sleep(FOREVER)
    return pid


def main():
    pid = child()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    held = threading.RLock()
    held.acquire()
    sleeper = start(wait_sleep, False)
    start(wait_rlock, True, held)
    start(wait_join, True, sleeper)
    start(wait_child, True, pid)
    kinds = [wait_lock, wait_lock_timed, wait_condition, wait_condition_timed, wait_event]
    kinds += [wait_semaphore, wait_barrier, wait_queue, wait_read, wait_select, wait_poll]
    kinds += [wait_epoll, wait_recv, wait_accept, wait_signal, wait_nested]
    for number, kind in enumerate(kinds):
        start(kind, number % 2 == 0)
    print("ready", os.getpid())
    sys.stdout.flush()
    time.sleep(FOREVER)  # LINE:main


if __name__ == "__main__":
    main()  # LINE:module
