"""Every request opens a file that nobody closes."""
# expect: leak
# wait: 28
import os
import time

handles = []


def serve():
    handles.append(open(os.devnull))  # here


print("stall", flush=True)
while True:
    serve()
    time.sleep(0.1)
