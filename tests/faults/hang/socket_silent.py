"""A server that accepts and never answers."""
# expect: hang
import socket
import subprocess
import sys

CODE = """
import socket, sys, time
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(5)
print(s.getsockname()[1], flush=True)
c, _ = s.accept()
c.recv(100)
time.sleep(10000)
"""
server = subprocess.Popen([sys.executable, "-c", CODE], stdout=subprocess.PIPE)
port = int(server.stdout.readline())


def fetch():
    c = socket.create_connection(("127.0.0.1", port))
    c.sendall(b"get")
    return c.recv(100)  # here


print("stall", flush=True)
fetch()
