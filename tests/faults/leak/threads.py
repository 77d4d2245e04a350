"""Every request starts a thread that never ends."""
# expect: leak
# wait: 28
import threading
import time


def keep_alive():
    threading.Event().wait(3600)  # here


def serve():
    threading.Thread(target=keep_alive, daemon=True).start()


print("stall", flush=True)
while True:
    serve()
    time.sleep(0.3)
