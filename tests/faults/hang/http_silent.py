"""A client of a feature service that accepted the request and never answers."""
# expect: hang
import http.client
import multiprocessing as mp
import socket


def serve(port_out):
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen(8)
    port_out.send(s.getsockname()[1])
    kept = []
    while True:
        c, _ = s.accept()
        c.recv(4096)
        kept.append(c)


class Client:
    def __init__(self, port):
        self.conn = http.client.HTTPConnection("127.0.0.1", port)

    def features(self, key):
        self.conn.request("GET", "/features/%s" % key)
        return self.conn.getresponse().read()  # here


def main():
    r, w = mp.Pipe(False)
    p = mp.get_context("fork").Process(target=serve, args=(w,), daemon=True)
    p.start()
    c = Client(r.recv())
    print("stall", flush=True)
    for key in ("a", "b"):
        c.features(key)


main()
