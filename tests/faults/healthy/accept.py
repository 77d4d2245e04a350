"""A plain accept()."""
# expect: healthy
import socket

s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen()
print("stall", flush=True)
s.accept()
