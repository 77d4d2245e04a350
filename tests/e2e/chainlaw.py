"""The law of tests/targets/chains.py: which stacks its program can have."""
import ast

OUTER = ["run", "_bootstrap_inner", "_bootstrap"]


class Law:
    """Legal (caller, line, callee) triples and the lines of each function, from the source."""

    def __init__(self, path):
        self.path = path
        with open(path) as file:
            tree = ast.parse(file.read())
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        names = {node.name for node in functions}
        self.lines = {}
        self.pairs = set()
        for function in functions:
            last = function.lineno
            for node in ast.walk(function):
                last = max(last, getattr(node, "lineno", 0))
                if isinstance(node, ast.Name) and node.id in names:
                    self.pairs.add((function.name, node.lineno, node.id))
            self.lines[function.name] = (function.lineno, last)

    def breach(self, thread):
        """What is wrong with one thread of a snapshot; None when nothing is."""
        stack = [frame for frame in thread["frames"] if frame["frame_type"] == "python"]
        own = [frame for frame in stack if frame["file"] == self.path]
        outer = [frame["func"].split(".")[-1] for frame in stack[len(own):]]
        if stack[:len(own)] != own or outer != OUTER:
            return "outer frames: %s" % [frame["func"] for frame in stack]
        root = "t%s_root" % thread["name"].split("-")[1]
        if not own or own[-1]["func"] != root:
            return "root: %s" % [frame["func"] for frame in own]
        first, last = self.lines[own[0]["func"]]
        # Some instructions at the entry of a generator have no line, says CPython itself.
        if not first <= (own[0]["lineno"] or first) <= last:
            return "innermost line: %s:%s" % (own[0]["func"], own[0]["lineno"])
        for callee, caller in zip(own, own[1:]):
            if (caller["func"], caller["lineno"], callee["func"]) not in self.pairs:
                return "%s:%s -> %s" % (caller["func"], caller["lineno"], callee["func"])
        return None


class Tally:
    """Counts over many snapshots."""

    def __init__(self, law):
        self.law = law
        self.snapshots = self.stacks = self.torn = self.wrong = 0
        self.torn_snapshots = 0
        self.examples = []
        self.depths = set()

    def add(self, snapshot):
        self.snapshots += 1
        torn = 0
        for thread in snapshot["threads"]:
            if not (thread["name"] or "").startswith("chain-"):
                continue
            self.stacks += 1
            if thread["torn"]:
                torn += 1
                continue
            self.depths.add(len(thread["frames"]))
            breach = self.law.breach(thread)
            if breach:
                self.wrong += 1
                self.examples.append(breach)
        self.torn += torn
        self.torn_snapshots += torn > 0
