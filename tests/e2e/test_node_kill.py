"""
Node, target and tool are killed at random moments. What was written is there once, the next
command just works, and nothing is left but what answers for the dead.

PROBING_KILL_ROUNDS sets how many rounds there are; `make bench` runs hundreds.
"""
import glob
import os
import random

import patience
from nodes import Node, alive
from numbering import Numbers, assert_whole, broken_off, kill_node

ROUNDS = int(os.environ.get("PROBING_KILL_ROUNDS", "24"))
SETTINGS = {"PROBING_HISTORY_DELAY": "0.1"}
ASK = ("query", "SELECT count(*) FROM python.numbers")


def one_round(node, target, chance):
    """Kills the node, or a tool that asks it, somewhere in what it does."""
    kind = chance.random()
    if kind < 0.3:
        broken_off(node, target.pid, *ASK, after=chance.uniform(0, 0.06))
        return
    # It starts, discovers, seals, merges: the moment is anywhere in that.
    broken_off(node, target.pid, *ASK, after=chance.uniform(0.02, 0.4))
    kill_node(node)


def litter(node):
    """Files in the lake that are neither parts nor the lock."""
    found = glob.glob(os.path.join(node.home, "lake", "**", ".*"), recursive=True)
    found += glob.glob(os.path.join(node.home, "lake", "**", "*.broken"), recursive=True)
    return [path for path in found if not os.path.basename(path).startswith(".lock")]


def stores_of_nodes(node):
    """Folders in shared memory of nodes of this history that are gone."""
    found = []
    for meta in glob.glob("/dev/shm/probing-%d/*/meta" % os.getuid()):
        try:
            with open(meta) as file:
                lines = file.read().split("\n")
        except OSError:
            continue
        pid = os.path.basename(os.path.dirname(meta)).partition("-")[0]
        if "role=node" in lines and "data=" + node.home in lines and not alive(int(pid)):
            found.append(meta)
    return found


def test_killed_at_random_moments(any_py, tmp_path):
    chance = random.Random(int(os.environ.get("PROBING_KILL_SEED", "7")))
    node = Node(tmp_path, **SETTINGS)
    targets = []
    try:
        for number in range(ROUNDS):
            if number % 3 == 0:
                targets.append(Numbers(any_py, node, tmp_path, rate=4000))
            one_round(node, targets[-1], chance)
            answer = node(targets[-1].pid, *ASK)  # no stuck lock: the next one works
            assert answer.returncode == 0, answer
            if number % 3 == 2:
                written = targets[-1].kill()
                assert_whole(node, targets[-1].pid, written)
        dead = [target for target in targets if target.process.poll() is not None]
        for target in dead:  # and still, after all that came behind them
            assert_whole(node, target.id, target.written())
        # What nodes measured is in files, their folders go; nothing unfinished lies about.
        assert patience.until(lambda: not stores_of_nodes(node)), stores_of_nodes(node)
        node.stop()
        assert not litter(node)
        assert patience.until(lambda: not stores_of_nodes(node)), stores_of_nodes(node)
        for target in dead:
            assert_whole(node, target.id, target.written())
    finally:
        node.stop()
        for target in targets:
            target.stop()
