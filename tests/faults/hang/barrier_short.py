"""A barrier for three with two parties."""
# expect: hang
import threading

meet = threading.Barrier(3)


def party():
    meet.wait()  # here


threads = [threading.Thread(target=party) for _ in range(2)]
for t in threads:
    t.start()
print("stall", flush=True)
for t in threads:
    t.join()
