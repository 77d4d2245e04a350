"""Waits for a flag by spinning, and nobody sets it."""
# expect: hang
state = {"done": False}


def wait_done():
    while not state["done"]:  # here
        pass  # here


print("stall", flush=True)
wait_done()
