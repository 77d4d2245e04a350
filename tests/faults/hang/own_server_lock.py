"""A request to a thread of the same process, whose handler needs a lock that the asker has."""
# expect: hang
import http.server
import threading
import urllib.request

LOCK = threading.Lock()


class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with LOCK:  # here
            self.send_response(200)
            self.end_headers()

    def log_message(self, *a):
        pass


s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), H)
threading.Thread(target=s.serve_forever, daemon=True).start()


def refresh():
    with LOCK:
        return urllib.request.urlopen("http://127.0.0.1:%d/" % s.server_port).read()  # here


print("stall", flush=True)
refresh()
