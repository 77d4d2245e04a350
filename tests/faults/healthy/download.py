"""A download that crawls: bytes come now and then, from a thread of a server here."""
# expect: healthy
import http.server
import threading
import time
import urllib.request


class Slow(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        while True:
            self.wfile.write(b"x" * 1000)
            time.sleep(1)


s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
threading.Thread(target=s.serve_forever, daemon=True).start()
print("stall", flush=True)
r = urllib.request.urlopen("http://127.0.0.1:%d/" % s.server_port)
while True:
    r.read(1000)
