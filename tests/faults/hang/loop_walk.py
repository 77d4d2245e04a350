"""A linked list that leads back to itself."""
# expect: hang


class Node:
    def __init__(self):
        self.next = None


a, b = Node(), Node()
a.next, b.next = b, a


def length(node):
    while node is not None:  # here
        node = node.next  # here


print("stall", flush=True)
length(a)
