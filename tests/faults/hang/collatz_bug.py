"""A binary search whose bounds stop moving."""
# expect: hang


def search(v, x):
    low, high = 0, len(v)
    while low < high:  # here
        mid = (low + high) // 2  # here
        if v[mid] < x:  # here
            low = mid  # here
        else:
            high = mid  # here
    return low


print("stall", flush=True)
search(list(range(0, 100, 3)), 50)
