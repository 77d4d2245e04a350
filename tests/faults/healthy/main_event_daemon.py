"""Main waits for an event that a signal handler sets; a thread serves a socket."""
# expect: healthy
import signal
import socket
import threading

stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())


def serve():
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen()
    while True:
        s.accept()


threading.Thread(target=serve, daemon=True).start()
print("stall", flush=True)
stop.wait()
