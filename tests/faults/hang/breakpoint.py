"""A forgotten breakpoint()."""
# expect: hang


def step():
    x = 1
    breakpoint()
    return x  # here


print("stall", flush=True)
step()
