"""The server dies of what it reads: it is started again, its addresses stay, and what killed it is
refused with the reason."""
import concurrent.futures
import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.request

import pytest

import harness
import patience
from nodes import alive, gone, node  # noqa: F401 (node is a fixture)

# Works for a long time and can be asked to; two texts of the same kind.
LONG = "SELECT sum(a.range * b.range) FROM range(10000000) a, range(%d) b"


def listen(node):
    answer = node("serve", "--listen", "127.0.0.1:0", "--no-token")
    assert answer.returncode == 0, answer.stderr
    return "127.0.0.1:" + re.search(r"127\.0\.0\.1:(\d+)", answer.stdout).group(1)


def health(address):
    with urllib.request.urlopen("http://%s/health" % address, timeout=20) as answer:
        return json.load(answer)


def server(address):
    return health(address)["pid"]


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
        return [int(word) for word in file.read().split()]


def test_killed_server_is_replaced(node):
    address = listen(node)
    pid = node.pid()
    first = server(address)
    assert first != pid and children(pid) == [first]
    for signo in (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT):
        before, start = server(address), time.monotonic()
        os.kill(before, signo)
        assert gone(before)
        assert server(address) != before  # whoever comes meanwhile waits, and is answered
        assert time.monotonic() - start < 5
    assert health(address)["restarts"] == 3
    assert node.pid() == pid
    assert node.rows("SELECT 1 AS one") == [{"one": 1}]
    assert len(re.findall("the server died", node.log())) == 3
    node.stop()
    assert gone(pid)
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", int(address.split(":")[1])), 5)


def test_nothing_is_left_of_a_killed_supervisor(node):
    address = listen(node)
    pid, path = node.pid(), node.socket()
    worker = server(address)
    os.kill(pid, signal.SIGKILL)
    assert gone(worker, 5)
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", int(address.split(":")[1])), 5)
    assert node.rows("SELECT 1 AS one") == [{"one": 1}]
    assert node.pid() != pid
    node.stop()
    assert not os.path.exists(path)


def ask(address, sql):
    body = json.dumps({"sql": sql, "format": "json"}).encode()
    request = urllib.request.Request("http://%s/api/query" % address, body,
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return json.load(error)
    except OSError as error:
        return error


def busy_server(address):
    """The server's pid, once it works on a query: half a second of CPU more than at first."""
    def ticks(pid):
        with open("/proc/%d/stat" % pid) as file:
            fields = file.read().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    pid = server(address)
    first, end = ticks(pid), time.monotonic() + 60
    while ticks(pid) < first + os.sysconf("SC_CLK_TCK") / 2:
        assert time.monotonic() < end, "no query is at work"
        time.sleep(0.05)
    return pid


def test_the_query_that_killed_it_is_refused(node):
    """With the reason, over HTTP and by the tool; others are not."""
    address = listen(node)
    killer = LONG % 1000001
    asked = node.start("query", killer)
    os.kill(busy_server(address), signal.SIGSEGV)
    out, err = asked.communicate(timeout=60)
    assert (asked.returncode, out) == (1, "")
    line = (r"refused: this query ended the server at \d\d:\d\d:\d\d \(Segmentation fault\); "
            r"ask another way")
    assert re.match("probing: %s\n$" % line, err), err
    assert re.match(line, ask(address, killer)["error"]["message"])
    assert ask(address, "SELECT 2 AS two") == [{"two": 2}]
    assert node("-t", address, "query", killer).returncode == 1


def test_others_that_were_at_work_are_answered(node):
    """Whoever was there when it died is not refused for that alone."""
    address = listen(node)
    short = "SELECT count(*) AS n FROM range(200000000) t(i) WHERE i % 7 = 3"
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        one = pool.submit(node, "query", LONG % 1000002)
        two = pool.submit(node.rows, short)
        time.sleep(0.3)
        os.kill(server(address), signal.SIGKILL)
        assert two.result()[0]["n"] == 28571429
        time.sleep(1)
        os.kill(server(address), signal.SIGKILL)  # and now it is the only one, or the second time
        answer = one.result()
    assert answer.returncode == 1
    assert "ended the server" in answer.stderr, answer.stderr
    assert node.rows(short)[0]["n"] == 28571429


def test_an_answer_that_is_cut_off_says_why(node):
    """In one line, and at once."""
    address = listen(node)
    asked = subprocess.Popen([harness.BIN, "-t", address, "query", "-f", "csv",
                              "SELECT range, repeat('x', 100) FROM range(3000000)"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env=dict(harness.ENV, **node.env), encoding="utf-8")
    asked.stdout.read(1000000)
    os.kill(server(address), signal.SIGBUS)
    start = time.monotonic()
    _, err = asked.communicate(timeout=patience.SECONDS)
    assert asked.returncode == 1
    assert err == "probing: the server died while it answered (Bus error) and was started again\n"
    assert time.monotonic() - start < 60


def test_a_server_that_dies_at_once_does_not_spin(node):
    """Each death makes the next start wait longer."""
    address = listen(node)
    start = time.monotonic()
    for _ in range(4):
        pid = server(address)
        os.kill(pid, signal.SIGKILL)
        assert gone(pid)
    health(address)
    assert 0.2 < time.monotonic() - start < 20
    assert alive(node.pid())


# Each % with a _ behind it multiplies the ways to look at: this does not end.
STUCK = "SELECT lpad('', 400, 'a') LIKE '%a_%a_%a_%a_%a_%a_%b'"


def test_a_function_that_does_not_come_back_is_ended(node):
    """Its query is told in time; some seconds later the core that it holds is free again."""
    address = listen(node)
    first = server(address)
    answer = node("query", "--timeout", "1", STUCK)
    assert answer.returncode == 5 and "inside one function" in answer.stderr
    assert gone(first, 30)
    again = node("query", "--timeout", "1", STUCK)
    assert again.returncode == 1
    assert "(stuck inside one function)" in again.stderr, again.stderr
    assert node.rows("SELECT 1 AS one") == [{"one": 1}]


def test_time_is_up_inside_a_function_behind_the_first_byte(node):
    """The reason arrives all the same, with its exit code; and the node can be stopped."""
    sql = ("SELECT range AS n, CASE WHEN range < 900000 THEN false ELSE (%s) END AS b "
           "FROM range(1000000)" % STUCK)
    node("serve")
    pid = node.pid()
    for form in ("csv", "table"):
        answer = node("query", "--limit", "0", "--timeout", "2", "-f", form, sql)
        assert answer.returncode == 5, answer.stderr
        assert answer.stderr.startswith("probing: timed out after 2 s"), answer.stderr
    assert node("serve", "--stop").returncode == 0
    assert gone(pid, 1)


@pytest.mark.parametrize("bomb", [
    "SELECT printf('%1000000000d', 1)",
    "SELECT format('{:1000000000d}', 1)",
    "SELECT printf('%*d', 1000000000, 1)",
    "SELECT length(replace(repeat('x', 4000000), 'x', repeat('y', 4000)))",
])
def test_memory_that_several_want_at_once(node, bomb):
    """Each may fail; the address answers, and so does the next question."""
    address = listen(node)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda n: node("query", "%s -- %d" % (bomb, n)), range(4)))
    assert {answer.returncode for answer in answers} == {1}, answers
    assert all(answer.stderr.count("\n") == 1 for answer in answers), answers
    assert ask(address, "SELECT 2 AS two") == [{"two": 2}]
