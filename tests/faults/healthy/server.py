"""A server that nobody calls."""
# expect: healthy
import http.server

s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
print("stall", flush=True)
s.serve_forever()
