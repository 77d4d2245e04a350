"""Sends without a reader: both sides of a socket pair send first."""
# expect: hang
import os
import socket

a, b = socket.socketpair()


def talk(s):
    s.sendall(b"x" * 10_000_000)  # here
    s.recv(1)


if os.fork() == 0:
    a.close()
    talk(b)
else:
    b.close()
    print("stall", flush=True)
    talk(a)
