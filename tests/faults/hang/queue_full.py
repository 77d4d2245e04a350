"""Nobody empties a bounded queue."""
# expect: hang
import queue

q = queue.Queue(maxsize=4)
print("stall", flush=True)
for i in range(10):
    q.put(i)  # here
