"""A user who makes folders, rings and tables without end takes no room and no time of others."""
import glob
import os
import shutil
import subprocess
import time

import pytest

import harness
import nodes
import patience
from strangers import FIRST, SECOND, Stranger, needs_root

pytestmark = needs_root
ROWS = "SELECT count(*) AS n FROM python.memory"


@pytest.fixture
def root(tmp_path):
    made = nodes.Node(tmp_path, PROBING_HISTORY_DELAY="0.1")
    yield made
    made.stop()


def folder_of(target):
    return "/dev/shm/probing-%d/%d-%s" % (target.uid, target.pid, target.start)


def probed(start, root, uid):
    target = start(Stranger, uid, "probed.py")
    assert root(target.pid, "inject").returncode == 0
    patience.until(lambda: root.rows(ROWS, target.pid)[0]["n"] > 0)
    return target


def make_folder(path):
    os.mkdir(path, 0o700)
    os.chown(path, FIRST, FIRST)
    return path


def ring_of(target):
    return glob.glob(folder_of(target) + "/python.memory.*.ring")[0]


def test_more_rings_than_there_are_descriptors(start, root, any_py):
    """Root's own rows and others' are there all the same, and so are those of the one process
    among thousands of folders that lives."""
    subprocess.run(["prlimit", "--nofile=1024:1024", harness.BIN, "query", "SELECT 1"],
                   check=True, env=dict(harness.ENV, **root.env), stdout=subprocess.DEVNULL,
                   timeout=60)
    own, first = start(harness.Script, any_py, "probed.py"), probed(start, root, FIRST)
    assert root(own.pid, "inject").returncode == 0
    ring = ring_of(first)
    for number in range(1100):
        make_folder("/dev/shm/probing-%d/%d-99999999%d" % (FIRST, 4000000 + number, number))
    for number in range(4):
        made = make_folder("/dev/shm/probing-%d/%d-999999999%d" % (FIRST, 4100000 + number, number))
        for turn in range(300):
            os.link(ring, "%s/python.memory.%d.ring" % (made, turn))
    second = probed(start, root, SECOND)
    for target in (own, first, second):
        patience.until(lambda: root.rows(ROWS, target.pid)[0]["n"] > 0)
    rows = root.rows("SELECT reason FROM probing.tables WHERE name = 'python.memory'")
    assert "too many rings or columns of user %d" % FIRST in (rows[0]["reason"] or ""), rows


def test_names_of_folders_that_others_need(start, root):
    """Folders with other users' names, and thousands of one's own."""
    made = ["/dev/shm/probing-%d" % (200000 + number) for number in range(600)]
    made += ["/dev/shm/probing-%d-%016x" % (FIRST, number) for number in range(600)]
    try:
        for path in made:
            make_folder(path)
        root.rows(ROWS)
        time.sleep(0.6)  # new users are looked for now and then
        root.rows(ROWS)
        assert probed(start, root, SECOND).pid
    finally:
        for path in made:
            shutil.rmtree(path)


def test_tables_without_end(start, root):
    """Each is a view and a folder of history."""
    first = probed(start, root, FIRST)
    with open(ring_of(first), "rb") as file:
        data = bytearray(file.read())
    made = make_folder("/dev/shm/probing-%d/%d-1" % (FIRST, first.pid))
    for number in range(200):
        name = "flood.t%d" % number
        data[104:168] = name.encode().ljust(64, b"\0")
        path = "%s/%s.0.ring" % (made, name)
        with open(path, "wb") as file:
            file.write(data)
        os.chown(path, FIRST, FIRST)

    def folders():
        return len(glob.glob(os.path.join(root.home, "lake", "flood.*")))

    tables = root.rows("SELECT count(*) AS n FROM information_schema.tables "
                       "WHERE table_schema = 'flood'")
    assert 0 < tables[0]["n"] <= 64
    patience.until(lambda: folders() >= 64)
    patience.meanwhile(1)  # in which there would be all of them
    assert folders() <= 128
