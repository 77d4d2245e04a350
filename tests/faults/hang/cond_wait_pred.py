"""wait_for a predicate that no thread makes true; the producer has ended by an exception."""
# expect: hang
import threading

cond = threading.Condition()
items = []


def produce():
    try:
        raise ValueError("bad shard")
    except ValueError:
        return


t = threading.Thread(target=produce)
t.start()


def consume():
    with cond:
        cond.wait_for(lambda: items)  # here


print("stall", flush=True)
consume()
