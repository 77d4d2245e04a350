"""The node of root reads the rings of users who mean harm; it lives on, and believes little."""
import glob
import json
import os
import shutil
import struct
import subprocess
import time

import pytest

import harness
import nodes
import patience
import rings
from strangers import FIRST, SECOND, Stranger, needs_root

pytestmark = needs_root
NEXT = 384


@pytest.fixture
def root(tmp_path):
    made = nodes.Node(tmp_path)
    yield made
    made.stop()


def home_of(target):
    return "/dev/shm/probing-%d/%d-%s" % (target.uid, target.pid, target.start)


@pytest.fixture
def victim(start, root):
    """A probed process of another user whose rows root has seen."""
    target = start(Stranger, FIRST, "probed.py")
    assert root(target.pid, "inject").returncode == 0
    patience.until(lambda: root.rows("SELECT count(*) AS n FROM python.memory",
                                     target.pid)[0]["n"] > 0)
    return target


def ring_of(target):
    return glob.glob(home_of(target) + "/python.memory.*.ring")[0]


def copy_home(target, uid, name):
    """The same folder under another name, as if it were that user's."""
    to = "/dev/shm/probing-%d/%s" % (uid, name)
    shutil.copytree(home_of(target), to, ignore=shutil.ignore_patterns("control"))
    for path in [os.path.dirname(to), to] + glob.glob(to + "/*"):
        os.chown(path, uid, uid)
    os.chmod(os.path.dirname(to), 0o700)
    return to


def test_a_ring_that_is_cut_off_again_and_again(start, root, victim):
    fake = copy_home(victim, FIRST, "%d-1" % victim.pid)
    start(Stranger, FIRST, "cut_ring.py", glob.glob(fake + "/python.memory.*.ring")[0])
    before, end = root.pid(), time.monotonic() + 4
    while time.monotonic() < end:
        root.rows("SELECT count(*), max(rss_mb) FROM python.memory")
    assert root.pid() == before


def test_words_that_are_no_text(root, victim):
    """In `meta`, which becomes host names, commands, states."""
    before = root.pid()
    for turn in range(1, 6):  # before and after its rows are in files
        fake = copy_home(victim, FIRST, "%d-%d" % (victim.pid, turn))
        with open(fake + "/meta", "wb") as file:
            file.write(b"host=\xff\xfe\xc3\ncommand=\xed\xa0\x80 \xff\nagent=\xff\npython=\xfe\n"
                       b"boot_id=\xff\nstarted_ns=1\n")
        with open(fake + "/status", "wb") as file:
            file.write(b"agent.state=\xff\ncollector.\xfe=\xff: \xff\n")
        root.rows("SELECT host, count(*) FROM python.memory GROUP BY ALL")
        root.rows("SELECT * FROM probing.agents")
    assert root("list", "--dead", "-f", "json").returncode == 0
    assert root.pid() == before


@pytest.mark.parametrize("rows", (2 ** 64 - 8, 2 ** 63, 2 ** 57))
def test_a_head_that_cannot_be(root, victim, rows):
    """As it is opened, and later, when it is open already."""
    fake = copy_home(victim, FIRST, "%d-1" % victim.pid)
    for path in (glob.glob(fake + "/python.memory.*.ring")[0], ring_of(victim)):
        with open(path, "r+b") as file:
            file.seek(NEXT)
            file.write(struct.pack("<Q", rows))
    before = root.pid()
    answer = root("query", "--timeout", "5", "SELECT count(*) FROM python.memory", timeout=20)
    assert answer.returncode == 0, answer
    assert root.pid() == before
    with open("/proc/%d/status" % before) as file:
        size = [int(line.split()[1]) for line in file if line.startswith("VmHWM")][0]
    assert size < 700000, "%d kB" % size
    tables = root.rows("SELECT reason FROM probing.tables WHERE name = 'python.memory'")
    reason = tables[0]["reason"]
    assert reason.count("rows") == 2 and "-%d: " % FIRST in reason, reason


def test_a_table_that_has_nothing_but_a_broken_ring(root, victim):
    """It is listed, with the reason; whatever the file is called, as text."""
    fake = copy_home(victim, FIRST, "%d-1" % victim.pid)
    for name in ("python.broken.0.ring", "python.bro ken.0.ring", "python.\xff.0.ring"):
        with open(os.path.join(fake.encode(), name.encode("latin-1")), "wb") as file:
            file.write(b"nothing")
    rows = root.rows("SELECT name, rows, reason FROM probing.tables WHERE name LIKE 'python.bro%'")
    assert [(row["name"], row["rows"]) for row in rows] == [("python.broken", 0)]
    assert "not a ring" in rows[0]["reason"]
    root.rows("SELECT * FROM probing.agents")


def rename_table(folder, name):
    """A ring of python.memory becomes one of another table, which nobody else has."""
    path = glob.glob(folder + "/python.memory.*.ring")[0]
    with open(path, "r+b") as file:
        file.seek(104)
        file.write(name.encode().ljust(64, b"\0"))
    os.rename(path, "%s/%s.0.ring" % (folder, name))


def test_a_folder_with_the_name_of_a_process_of_root(start, root, victim, any_py):
    """Its rows are not that process's, neither while that lives nor when it is gone."""
    own = start(harness.Script, any_py, "probed.py")
    assert root(own.pid, "inject").returncode == 0
    patience.until(lambda: root.rows("SELECT count(*) AS n FROM python.memory",
                                     own.pid)[0]["n"] > 0)
    fake = copy_home(victim, SECOND, "%d-%s" % (own.pid, own.start))
    rename_table(fake, "python.forged")
    try:
        time.sleep(0.6)  # new users are looked for now and then
        answer = root("query", "SELECT * FROM python.forged")
        assert answer.returncode == 1 and "forged" in answer.stderr, answer
        own.stop()
        patience.until(lambda: not os.path.exists("/proc/%d" % own.pid))
        answer = root(own.pid, "query", "-f", "json", "SELECT * FROM python.forged")
        assert answer.returncode == 1 or json.loads(answer.stdout) == [], answer
        assert root.rows("SELECT count(*) AS n FROM python.memory", own.pid)[0]["n"] > 0
    finally:
        shutil.rmtree("/dev/shm/probing-%d" % SECOND)


def test_rows_that_claim_to_be_about_others(root, victim):
    """A ring with a pid column of its own says what it likes about anybody: not a stranger's."""
    fake = copy_home(victim, FIRST, "%d-1" % victim.pid)
    path = glob.glob(fake + "/python.memory.*.ring")[0]
    ring = rings.Ring(path)
    with open(path, "r+b") as file:
        data = bytearray(file.read())
        at = data.index(b"gc_gen0\0")
        data[at:at + 8] = b"pid\0\0\0\0\0"
        slot = [column[2] for column in ring.columns if column[0] == "gc_gen0"][0]
        for number in range(ring.capacity):
            struct.pack_into("<q", data, slot + 8 * number, 1)
        file.seek(0)
        file.write(data)
    pids = {row["pid"] for row in root.rows("SELECT DISTINCT pid FROM python.memory")}
    assert victim.pid in pids and 1 not in pids


def change_columns(path, changes):
    """Gives columns of a ring another name and another type: {name: (name, type)}."""
    with open(path, "r+b") as file:
        data = bytearray(file.read())
        head = rings.HEAD.unpack_from(data)
        for i in range(head[5]):
            at = head[8] + i * head[4]
            fields = list(rings.COLUMN.unpack_from(data, at))
            if rings.text_of(fields[0]) in changes:
                name, fields[2] = changes[rings.text_of(fields[0])]
                fields[0] = name.encode()
                rings.COLUMN.pack_into(data, at, *fields)
        file.seek(0)
        file.write(data)


def test_columns_of_other_types_and_names(root, victim):
    """A table of the tool has the columns that the tool says, whatever somebody's ring says: in
    rings, and in the history that is made of them."""
    sql = "SELECT sum(rss_mb) > 0 AS ok, count(DISTINCT pid) AS pids FROM python.memory"
    before = root.rows("DESCRIBE python.memory")
    fake = copy_home(victim, FIRST, "%d-1" % victim.pid)
    change_columns(glob.glob(fake + "/python.memory.*.ring")[0], {
        "rss_mb": ("rss_mb", rings.TEXT), "vms_mb": ("vms_mb", rings.TIME),
        "gc_gen0": ("own_invention", rings.INT)})
    files = root.env["PROBING_HOME"] + "/lake/python.memory/*/*/process=%d-1-%d/*" % (
        victim.pid, FIRST)
    patience.until(lambda: root.rows(sql) and glob.glob(files))
    assert root.rows(sql) == [{"ok": True, "pids": 1}]
    assert root.rows("DESCRIBE python.memory") == before
    assert root("query", "SELECT * FROM memory_usage").returncode == 0


@pytest.mark.parametrize("name", ("python.stack_frames", "python.samples", "system.machine",
                                  "gpu.device"))
def test_a_table_that_nodes_write(root, victim, name):
    """Frames of others' stacks, facts about the machine: only our own node says those."""
    fake = copy_home(victim, FIRST, "%d-1" % victim.pid)
    rename_table(fake, name)
    rows = root.rows("SELECT reason FROM probing.tables WHERE name ILIKE '%s'" % name)
    assert "written by user %d" % FIRST in (rows[0]["reason"] or ""), rows


class Fault:
    """A fault in the thread of the node's server that reads this file, as a bug of the reader would
    be one: the kernel's debugger interface puts the signal there."""

    def __init__(self, node, path):
        self.server, = children(node.pid())
        self.tracer = subprocess.Popen(
            ["strace", "-f", "-p", str(self.server), "-P", path, "-e", "trace=pread64",
             "-e", "inject=pread64:signal=SEGV"], stderr=subprocess.PIPE, encoding="utf-8")
        assert "attached" in self.tracer.stderr.readline()

    def wait(self):
        assert "SIGSEGV" in self.tracer.communicate(timeout=60)[1]
        assert nodes.gone(self.server)


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
        return [int(word) for word in file.read().split()]


def set_aside(node):
    rows = node.rows("SELECT reason FROM probing.tables WHERE name = 'python.memory'")
    return rows[0]["reason"] or ""


REASON = "set aside: it ended a server that read it (Segmentation fault)"


def test_a_ring_that_ends_the_server(root, victim, start):
    """Whatever nobody thought of: the server is back at once, the same question is answered without
    that ring and with the others; and so it stays in the next node."""
    other = start(Stranger, SECOND, "probed.py")
    assert root(other.pid, "inject").returncode == 0
    patience.until(lambda: root.rows("SELECT 1 FROM python.memory", other.pid))
    sql, before = "SELECT DISTINCT pid FROM python.memory", root.pid()
    seen = {row["pid"] for row in root.rows(sql)}
    assert {victim.pid, other.pid} <= seen
    fault = Fault(root, ring_of(victim))
    seen = {row["pid"] for row in root.rows("SELECT DISTINCT pid, 1 AS one FROM python.memory "
                                            "WHERE rss_mb IS NOT NULL")}
    fault.wait()
    assert other.pid in seen
    assert root.pid() == before
    assert root.log().count("the server died") == 1, root.log()
    assert REASON in set_aside(root)
    assert other.pid in {row["pid"] for row in root.rows(sql)}
    root.stop()
    assert REASON in set_aside(root) and root.pid() != before
    with open(root.env["PROBING_HOME"] + "/rings-set-aside", encoding="utf-8") as file:
        assert len(file.readlines()) == 1


def test_a_ring_that_ends_the_server_as_it_is_opened(root, victim):
    """Before there is anything to know it by but its file."""
    fake = "/dev/shm/probing-%d/%d-1" % (FIRST, victim.pid)
    path = fake + "/" + os.path.basename(ring_of(victim))
    assert root.rows("SELECT 1 AS one") == [{"one": 1}]
    fault = Fault(root, path)
    copy_home(victim, FIRST, "%d-1" % victim.pid)
    patience.until(lambda: REASON in set_aside(root))
    fault.wait()
    assert root.log().count("the server died") == 1, root.log()


@pytest.mark.parametrize("uid", (0, FIRST))
def test_a_ring_that_has_lost_its_pages(start, root, any_py, uid):
    """One's own rings are mapped, a stranger's never is. Whichever thread first touches a page that
    is gone, one of the engine or the one that answers the request, the server lives on."""
    own = start(harness.Script, any_py, "probed.py")
    other = start(Stranger, uid, "simple.py") if uid else start(harness.Script, any_py, "simple.py")
    assert root(own.pid, "inject").returncode == 0
    patience.until(lambda: root.rows("SELECT 1 FROM python.memory", own.pid))
    ring, = glob.glob("/dev/shm/probing-0/%d-%s/python.memory.*.ring" % (own.pid, own.start))
    fake = "/dev/shm/probing-%d/%d-%s" % (uid, other.pid, other.start)
    os.makedirs(fake, 0o700)
    for path in (os.path.dirname(fake), fake):
        os.chmod(path, 0o700)
        os.chown(path, uid, uid)
    try:
        for turn in range(12):
            name = "%s/python.memory.%d.ring" % (fake, turn)
            shutil.copy(ring, name)
            patience.until(lambda: root.rows("SELECT max(rss_mb) FROM python.memory "
                                             "HAVING count(*) > 0", other.pid))
            os.truncate(name, 4096)
            root.rows("SELECT count(*), max(rss_mb) FROM python.memory", other.pid)
            os.unlink(name)
        assert "the server died" not in root.log()
    finally:
        shutil.rmtree(fake)
