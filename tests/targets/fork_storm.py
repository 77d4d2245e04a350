"""Forks without end; a child that does not end well ends everything."""
import os
import threading


def churn():
    """Threads come and go meanwhile."""
    while True:
        thread = threading.Thread(target=sum, args=([1, 2, 3],))
        thread.start()
        thread.join()


def main():
    thread = threading.Thread(target=churn)
    thread.daemon = True
    thread.start()
    os.write(1, ("ready %d\n" % os.getpid()).encode())
    while True:
        pid = os.fork()
        if pid == 0:
            os._exit(len([number for number in range(100)]) - 100)
        if os.waitpid(pid, 0)[1] != 0:
            os.write(2, b"a child ended badly\n")
            os._exit(9)


main()
