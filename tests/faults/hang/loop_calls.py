"""A search for the right batch size that never narrows."""
# expect: hang
def fits(size, memory):
    return size * 3.5 < memory


def find_batch_size(memory):
    low, high = 1, 1024
    while low < high:  # here
        mid = (low + high) // 2  # here
        if fits(mid, memory):  # here
            low = mid  # here
        else:
            high = mid  # here
    return low


def main():
    for memory in (64, 512, 900):
        print("stall", flush=True)
        print(find_batch_size(memory))


main()
