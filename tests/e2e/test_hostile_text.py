"""Names that another user's process gives to everything reach root's screen and files as text."""
import os
import pty
import select
import subprocess

import pytest

import harness
import nodes
from strangers import FIRST, Stranger, needs_root

pytestmark = needs_root
BAD = (b"\x1b]0;", b"\x07", "\x9b".encode(), "\u202e".encode())
SCRIPT = "</script><script>PWNED"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    made = nodes.Node(tmp_path_factory.mktemp("node"))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def loud(root, tmp_path_factory):
    """A probed process of another user, all of whose names are bad."""
    folder = tmp_path_factory.mktemp("loud")
    for part in (folder, folder.parent, folder.parent.parent):
        os.chmod(str(part), 0o777 if part == folder else 0o755)
    target = Stranger(FIRST, "loud.py", folder)
    try:
        assert root(target.pid, "inject").returncode == 0
        yield target
    finally:
        target.stop()


def at_terminal(root, *words):
    """(exit status, bytes) of the tool, as root, with a terminal as its output."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # how far it is, on one line
        os.execve(harness.BIN, [harness.BIN] + [str(word) for word in words],
                  dict(harness.ENV, **dict(root.env, TERM="xterm", PAGER="cat")))
    said = b""
    while select.select([terminal], [], [], 60)[0]:
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            break
        if not piece:
            break
        said += piece
    os.close(terminal)
    return os.waitpid(pid, 0)[1] >> 8, said


COMMANDS = (
    ("backtrace", "-a", "-l", "-n", "-v"),
    ("memory",),
    ("memory", "--heap"),
    ("memory", "--sites", "-d", "1"),
    ("flamegraph", "-d", "1", "-f", "collapsed", "-o", "-"),
    ("flamegraph", "-d", "1", "-f", "chrome", "-o", "-"),
    ("diagnose",),
    ("diagnose", "-f", "json"),
    ("hang",),
    ("diagnose", "--graph", "text"),
    ("diagnose", "--graph", "dot"),
    ("query", "SELECT * FROM python.waits"),
    ("query", "-f", "csv", "SELECT * FROM python.heap ORDER BY bytes DESC LIMIT 50"),
    ("query", "SELECT * FROM python.alloc"),
    ("query", "-f", "csv", "SELECT * FROM python.samples LIMIT 50"),
    ("query", "-f", "json", "SELECT * FROM python.folded_stacks LIMIT 50"),
    ("config",),
)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_on_the_screen(root, loud, words):
    code, said = at_terminal(root, loud.pid, *words)
    assert code in (0, 1, 10), (code, said)
    assert not [bad for bad in BAD if bad in said], said
    lines = said.replace(b"\r\n", b"\n")
    assert b"\r" not in lines, said


@pytest.mark.parametrize("form", ("html", "svg"))
def test_in_a_page(root, loud, form, tmp_path):
    path = str(tmp_path / ("flame." + form))
    done = root(loud.pid, "flamegraph", "-d", "1", "-o", path)
    assert done.returncode == 0, done
    with open(path, encoding="utf-8") as file:
        text = file.read()
    assert "PWNED" in text and SCRIPT not in text


def test_in_a_list(root, loud):
    code, said = at_terminal(root, "list", "-v")
    assert code == 0 and b"%d" % loud.pid in said
    assert not [bad for bad in BAD if bad in said], said


@pytest.fixture
def trap(tmp_path):
    """A folder of another user, and a file of root."""
    for part in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        os.chmod(str(part), 0o755)
    folder, secret = tmp_path / "theirs", tmp_path / "secret"
    folder.mkdir()
    secret.write_text("root's own")
    os.chown(str(folder), FIRST, FIRST)
    return folder, secret


def plant(folder, name, secret):
    path = str(folder / name)
    os.symlink(str(secret), path)
    os.lchown(path, FIRST, FIRST)
    return path


def test_output_where_somebody_has_put_a_link(root, loud, trap):
    folder, secret = trap
    path = plant(folder, "flame.html", secret)
    done = root(loud.pid, "flamegraph", "-d", "1", "-o", path)
    assert done.returncode == 1 and "a link of another user" in done.stderr, done
    assert secret.read_text() == "root's own"


def test_output_whose_unfinished_name_was_guessed(root, loud, trap):
    folder, secret = trap
    for pid in range(os.getpid(), os.getpid() + 3000):
        plant(folder, ".flame.html.%d.part" % pid, secret)
    done = root(loud.pid, "flamegraph", "-d", "1", "-o", folder / "flame.html")
    assert done.returncode == 0, done
    assert secret.read_text() == "root's own" and not os.path.islink(str(folder / "flame.html"))


def test_output_whose_name_is_swapped_for_a_link(root, trap, start):
    """Whichever of the two it is when it is looked at, and when it is written. Where a link is
    asked where it leads, the swapping has all the time it needs."""
    folder, secret = trap
    path = str(folder / "out.csv")
    root("query", "SELECT 1")
    start(Stranger, FIRST, "swap_name.py", path, secret)
    slow = ["strace", "-f", "-qq", "-o", "/dev/null", "-P", path, "-e", "trace=readlink,readlinkat",
            "-e", "inject=readlink,readlinkat:delay_enter=20000"]
    for _ in range(25):
        subprocess.run(slow + [harness.BIN, "query", "-o", path, "SELECT 1 AS one"], check=False,
                       env=dict(harness.ENV, **root.env), stderr=subprocess.DEVNULL, timeout=60)
        assert secret.read_text() == "root's own"


def test_tables_into_a_folder_that_is_a_link(root, loud, trap, tmp_path):
    folder, _ = trap
    ours = tmp_path / "ours"
    ours.mkdir()
    path = plant(folder, "tables", ours)
    done = root(loud.pid, "export", "-f", "csv", "-o", path)
    assert done.returncode == 1 and "a link of another user" in done.stderr, done
    assert os.listdir(str(ours)) == []


def test_tables_into_a_folder(root, loud, tmp_path):
    done = root(loud.pid, "export", "-f", "csv", "-o", tmp_path / "tables")
    assert done.returncode == 0, done
    said = [line.split("  ")[0] for line in done.stdout.splitlines()]
    assert said and sorted(said) == sorted(str(path) for path in (tmp_path / "tables").iterdir())
