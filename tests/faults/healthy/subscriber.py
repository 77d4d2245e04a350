"""A client waits for news of a server that sends some when there are any."""
# expect: healthy
import multiprocessing as mp
import socket


def serve(port):
    s = socket.create_server(("127.0.0.1", 0))
    port.send(s.getsockname()[1])
    c, _ = s.accept()
    c.recv(100)
    c.send(b"subscribed\n")
    c.recv(100)


a, b = mp.Pipe()
mp.get_context("fork").Process(target=serve, args=(b,), daemon=True).start()
c = socket.create_connection(("127.0.0.1", a.recv()))
c.sendall(b"subscribe\n")
f = c.makefile()
f.readline()
print("stall", flush=True)
f.readline()
