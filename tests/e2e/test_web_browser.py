"""The page as people use it: signing in, small screens, keys, a node that goes away, a prefix."""
import http.client
import http.server
import json
import os
import re
import subprocess
import sys
import threading

import pytest

import agents
import browsing
import harness
import patience
import querying
from nodes import Node
from ranks import free_port
from test_samplers import fake_nvml

pytestmark = browsing.needed
PAGES = ("overview", "process", "training", "modules", "flame", "communication", "memory", "sql",
         "console", "system")


class Small:
    """A node, and one process with probes that does not train."""

    def __init__(self, interpreter, folder):
        self.node = Node(folder)
        self.job = agents.Probed(interpreter)
        self.pid = self.job.pid
        assert self.node(self.pid, "inject").returncode == 0
        self.token = self.node("token").stdout.strip()

    def address(self, *words):
        answer = self.node("web", "--no-browser", *words)
        assert answer.returncode == 0, answer
        return answer.stdout.strip()

    def base(self):
        return self.address().split("#")[0]

    def stop(self):
        self.node.stop()
        self.job.stop()


@pytest.fixture(scope="module")
def small(any_py, tmp_path_factory):
    it = Small(any_py, tmp_path_factory.mktemp("browser"))
    yield it
    it.stop()


@pytest.fixture(scope="module")
def browser():
    it = browsing.Browser()
    yield it
    it.stop()


def signed_in(page):
    page.wait("document.querySelector('nav')")
    return page.text(".scope")


def test_a_ticket_signs_in_and_leaves_the_address(small, browser):
    page = browser.page()
    # The page is there already, and asks: the address is put into its own window.
    page.open(small.base())
    page.wait("document.querySelector('input[type=password]')")
    page.open(small.base() + "#/?ticket=" + 64 * "0")
    page.wait_text("used already")
    address = small.address()
    page.open(address)
    assert signed_in(page) == "control"
    assert "ticket" not in page.js("location.href")
    # The session is kept: by a reload, and by another tab, but not by another browser.
    page.run("await page.reload()")
    assert signed_in(page) == "control"
    assert not page.js("document.cookie")  # no script sees it
    other = browser.page()
    other.open(address)
    other.wait_text("used already")
    other.check(allowed=["401"])
    page.check(allowed=["401"])
    page.close()
    other.close()


def test_a_token_is_asked_for(small, browser):
    page = browser.page()
    page.open(small.base())
    page.wait("document.querySelector('input[type=password]')")
    page.fill("input[type=password]", "not-a-token-of-this-node")
    page.press("Enter")
    page.wait_text("not a token of this node")
    made = small.node("token", "new", "--scope", "read", "--name", "reader").stdout.strip()
    page.fill("input[type=password]", made)
    page.press("Enter")
    assert signed_in(page) == "read"
    assert "Console" in page.text("nav")
    # When the token is revoked, the page asks again, and shows no more.
    small.node("token", "revoke", "reader")
    page.wait("document.querySelector('input[type=password]')", 60)
    page.check(allowed=["401", "ERR_CONNECTION_RESET"])
    page.close()


def test_every_page_fits_a_phone_and_a_desk(small, browser):
    for width, dark in ((400, False), (1400, True)):
        page = browser.page(width=width, height=800, dark=dark)
        page.open(small.address())
        signed_in(page)
        for name in PAGES:
            page.go("#/%s?p=%d" % (name, small.pid))
            page.wait("document.querySelector('#main').innerText.length > 20")
            wide = page.js("document.documentElement.scrollWidth")
            assert wide <= width, (name, width, wide)
        back = page.js("getComputedStyle(document.body).backgroundColor")
        assert (back == "rgb(21, 23, 26)") == dark
        page.check()
        page.close()


def test_readers_and_keyboards_find_their_way(small, browser):
    """axe finds nothing serious, on any page."""
    page = browser.page()
    page.open(small.address())
    signed_in(page)
    with open(os.path.join(browsing.WEB, "node_modules", "axe-core", "axe.min.js")) as file:
        axe = file.read()
    for name in PAGES:
        page.go("#/%s?p=%d" % (name, small.pid))
        page.wait("document.querySelector('#main').innerText.length > 20")
        found = page.run("""await page.evaluate(args.axe);
            const { violations } = await page.evaluate(() => window.axe.run(document, {
                rules: { "region": { enabled: false } } }));
            return violations.filter((v) => ["serious", "critical"].includes(v.impact)).map((v) =>
                [v.id, v.nodes.map((n) => n.html.slice(0, 200)).slice(0, 3)]);""", axe=axe)
        assert not found, (name, found)
    page.go("#/")
    page.run("await page.reload()")
    page.wait("document.querySelector('section.panel')")
    page.press("Tab")
    page.press("Enter")  # past what is the same on every page
    assert page.js("document.activeElement.id") == "main"
    page.press("Tab")
    assert page.js("document.activeElement.closest('#main') !== null")
    page.run("await page.evaluate(() => document.activeElement.blur())")
    page.press("3")
    page.wait("location.hash.startsWith('#/training')")
    page.press(" ")
    page.wait("document.querySelector('.pause').innerText === 'paused'")
    page.close()


def test_paused_nothing_is_asked(small, browser):
    page = browser.page()
    page.open(small.address())
    signed_in(page)
    page.wait("document.querySelector('section.panel')")
    page.click(".pause")
    # Verdicts take two looks; "…" is none.
    page.wait("![...document.querySelectorAll('td')].some((c) => c.innerText === '…')", 60)
    before = len(page.report()["requests"])
    page.run("await page.waitForTimeout(4500)")
    assert len(page.report()["requests"]) == before
    # What somebody goes to meanwhile is asked for, once.
    for name, seen in (("memory", "table[aria-label='memory of processes'] tbody tr"),
                       ("system", "section[aria-label=Processors] canvas")):
        page.go("#/" + name)
        page.wait("document.querySelector(args.s)", s=seen)
    page.wait("document.querySelector('#main').innerText.includes('retention.days')")
    page.run("await page.waitForTimeout(1500)")
    before = len(page.report()["requests"])
    page.run("await page.waitForTimeout(2500)")
    assert len(page.report()["requests"]) == before
    page.click(".pause")
    patience.passes(lambda: grown(page, before))
    page.check()
    page.close()


def grown(page, before):
    assert len(page.report()["requests"]) > before


def test_empty_views_say_why(small, browser):
    page = browser.page()
    page.open(small.address())
    signed_in(page)
    page.go("#/training?p=%d" % small.pid)
    page.wait_text("torch", "#main")
    page.go("#/system")
    page.wait_text("libnvidia-ml.so.1", "#main")
    page.check()
    page.close()


def test_what_is_wrong_is_said_first(small, browser):
    """The verdict of diagnose: beside the process, and with its reasons above all."""
    script = os.path.join(browsing.ROOT, "tests", "faults", "hang", "lock_cycle.py")
    job = subprocess.Popen([sys.executable, script], stdout=subprocess.DEVNULL,
                           preexec_fn=harness.die_with_parent)
    page = browser.page()
    try:
        page.open(small.address())
        signed_in(page)
        page.go("#/?p=%d,%d" % (job.pid, small.pid))
        page.wait("document.querySelector(\"section[aria-label='What is wrong']\")", 60)
        said, = small.node.rows("SELECT * FROM verdicts", target=job.pid)
        shown = page.text("section[aria-label='What is wrong']")
        for part in (said["class"], said["confidence"], said["what"], said["why"], said["next"],
                     "lock_cycle.py:%d" % said["line"]):
            assert part in shown, (part, shown)
        words = {int(row["pid"]): row["verdict"] for row in page.table("Python processes")}
        assert words == {job.pid: "hang: deadlock", small.pid: "healthy"}
        page.check()
    finally:
        job.kill()
        job.wait()
        page.close()


def test_a_slow_node_is_not_asked_twice(small, browser):
    """A browser has six connections to a node: what waits for an answer must not take them all."""
    page = browser.page()
    page.run("""let asked = 0;
        await page.exposeFunction("askedForProcesses", () => asked);
        await page.route("**/api/processes*", async (route) => {
            asked++;
            await new Promise((done) => setTimeout(done, 8000));
            await route.continue();
        });""")
    page.open(small.address())
    signed_in(page)
    page.wait_text("Python processes are looked for", "#main")
    page.run("await page.waitForTimeout(6500)")
    assert page.js("window.askedForProcesses()") == 1
    page.wait("document.querySelector('section.panel table')")
    page.close()


def test_a_node_that_goes_away_is_said_and_data_stay(small, browser):
    page = browser.page()
    port = free_port()
    page.open(small.address("--port", port))
    signed_in(page)
    page.go("#/process?p=%d" % small.pid)
    page.wait("document.querySelector('table[aria-label=threads] tbody tr')")
    small.node("serve", "--stop")
    page.wait("document.querySelector('.banner')")
    assert "what is shown is from then" in page.text(".banner").replace("\n", " ")
    assert page.table("threads")
    # It comes back at the same port, and knows the browser still.
    small.address("--port", port)
    page.wait("!document.querySelector('.banner')", 60)
    assert signed_in(page) == "control"
    page.close()


def test_what_somebody_types_outlives_a_list_without_the_process(small, browser):
    """A list that leaves it out, settings that cannot be read again: neither takes it away."""
    page = browser.page()
    page.open(small.address())
    signed_in(page)
    page.go("#/process?p=%d" % small.pid)
    box = "input[aria-label='memory.interval']"
    page.wait("document.querySelector(args.s)", s=box)
    page.fill(box, "nonsense")
    page.press("Enter")
    page.wait("document.querySelector('.setting .bad')")
    page.run("""await page.route("**/api/processes*", (route) => route.fulfill({ json: [] }));""")
    page.wait_text("no longer sees this process")
    assert page.js("document.querySelector(args.s).value", s=box) == "nonsense"
    assert page.js("!!document.querySelector('.setting .bad')")
    page.run("""await page.unroute("**/api/processes*");""")
    page.wait("!document.querySelector('#main').innerText.includes('no longer sees')")
    assert page.js("!!document.querySelector('.setting .bad')")
    # What was there stays when it cannot be asked for again, and that is said.
    page.run("""await page.route("**/api/config?*", (route) => route.fulfill({ status: 500, json: {
        error: { code: "failed", message: "not now", at: null, nearest: "" } } }));""")
    page.fill(box, "0.7")
    page.press("Enter")
    page.wait_text("not now")
    assert page.js("!!document.querySelector(args.s)", s=box)
    page.check(allowed=["status of 400", "status of 500"])
    page.close()


# Of each question that is watched: rows, and then none any more.
BROKEN = """await page.route("**/api/stream", (route) => {
    const { queries } = route.request().postDataJSON();
    const events = queries.filter((q) => q.sql.includes("AS now_mb")).flatMap(({ id }) => [
        ["rows", { id, at: Date.now(), ms: 1, truncated: args.truncated, notices: [],
                   columns: ["rank", "pid", "now_mb", "peak_mb", "mb_per_min", "cuda_mb"].map(
                       (name) => ({ name, type: "DOUBLE" })), rows: [[0, 42, 7, 7, 0, null]] }],
        ...(args.error ? [["failed", { id, error: { code: "failed", message: args.error, at: null,
                                                    nearest: "" } }]] : [])]);
    return route.fulfill({ contentType: "text/event-stream", body: events.map(
        ([event, data]) => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`).join("") });
})"""


@pytest.mark.parametrize("error, truncated, says", [
    ("out of memory", False, ": out of memory"), ("", True, "the first 1 rows only"),
    ("", False, "")])
def test_rows_that_are_old_or_not_all_are_said_to_be(small, browser, error, truncated, says):
    page = browser.page()
    page.run(BROKEN, error=error, truncated=truncated)
    page.open(small.address())
    signed_in(page)
    page.go("#/memory")
    panel = "section[aria-label=Processes]"
    page.wait("document.querySelector(args.s + ' tbody td')", s=panel)
    if says:
        page.wait_text(says, panel + " > p[role=status]")
    else:
        page.run("await page.waitForTimeout(500)")
        assert not page.js("!!document.querySelector(args.s + ' > p')", s=panel)
    page.close()


def test_a_process_that_dies_while_it_is_looked_at(small, browser, any_py):
    """How it ended is said, and what was read from it stays."""
    job = agents.Probed(any_py)
    page = browser.page()
    try:
        assert small.node(job.pid, "inject").returncode == 0
        page.open(small.address())
        signed_in(page)
        page.go("#/process?p=%d" % job.pid)
        page.wait("document.querySelector('table[aria-label=threads] tbody tr')")
        page.wait("document.querySelector('.stacks li')")
        job.process.kill()
        job.process.wait()
        page.wait("document.querySelector(\"section[aria-label='Stacks, before it ended'] li\")")
        page.wait_text("SIGKILL", "#main")
        assert page.table("threads")
        page.go("#/?p=%d" % job.pid)
        page.wait_text("SIGKILL", "table[aria-label='Python processes']")
        page.check(allowed=["status of"])
    finally:
        page.close()
        job.stop()
        querying.forget(job.pid)


class Elsewhere(http.server.BaseHTTPRequestHandler):
    """A page of somebody else."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>elsewhere</title>")

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def elsewhere():
    """Its port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


# What a page can try, with the cookies of a browser that has signed in: what it could read of it.
ATTACK = """const other = await context.newPage();
    await other.goto(args.from);
    const got = await other.evaluate(async ({ to, eval_, set }) => {
        const got = [];
        const read = async (what, answer) => {
            try { got.push([what, answer.status, (await answer.text()).length]); }
            catch { got.push([what, "unread", 0]); }
        };
        for (const mode of ["cors", "no-cors"])
            for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
                for (const path of ["api/session", "api/eval", "api/config", "api/query",
                                    "api/processes", "api/backtrace?target=self"])
                    for (const type of ["text/plain", "application/json"]) {
                        const body = method === "GET" ? undefined :
                            path === "api/eval" ? eval_ : set;
                        const headers = body ? { "Content-Type": type } : {};
                        try {
                            await read(`${mode} ${method} ${path}`, await fetch(to + path,
                                { method, mode, body, headers, credentials: "include" }));
                        } catch { /* the browser itself forbids it */ }
                    }
        for (const [path, body] of [["api/eval", eval_], ["api/config", set]]) {
            navigator.sendBeacon(to + path, body);
            navigator.sendBeacon(to + path, new Blob([body], { type: "text/plain" }));
            const frame = document.createElement("iframe"), form = document.createElement("form");
            const field = document.createElement("input");
            frame.name = "f" + path.length;
            Object.assign(form, { method: "post", action: to + path, target: frame.name,
                                  enctype: "text/plain" });
            field.name = body.slice(0, -1) + ', "x": "';
            field.value = '"}';
            form.append(field);
            document.body.append(frame, form);
            form.submit();
        }
        const tries = [];
        for (const tag of ["img", "script", "iframe", "embed"])
            for (const path of ["", "api/processes", "api/session"]) {
                const element = document.createElement(tag);
                tries.push(new Promise((done) => {
                    element.onload = () => done(/iframe|embed/.test(tag) ? null : `${tag} ${path}`);
                    element.onerror = () => done(null);
                    setTimeout(done, 3000, null);
                }));
                element.src = to + path;
                document.body.append(element);
            }
        for (const path of ["api/stream", "api/processes"]) {
            const source = new EventSource(to + path, { withCredentials: true });
            source.onmessage = source.onopen = () => got.push(["events", 200, 1]);
        }
        got.push(...(await Promise.all(tries)).filter(Boolean).map((what) => [what, "loaded", 1]));
        return got.filter(([, , length]) => length > 0);
    }, { to: args.to, eval_: args.eval_, set: args.set });
    // What the frames show is an error of the browser's own.
    for (const frame of other.frames().slice(1)) {
        const text = await frame.evaluate(() => document.body?.innerText ?? "").catch(() => "");
        if (/probing|"error"|pid/.test(text)) got.push(["frame", text, 1]);
    }
    await Promise.all([other.waitForNavigation(), other.evaluate(
        (to) => { location.href = to; }, args.to + "api/processes")]);
    const visited = await other.evaluate(() => document.body?.innerText ?? "").catch(() => "");
    await other.close();
    return { got, visited };"""


def test_pages_of_other_sites_get_nothing(small, browser, elsewhere):
    """
    In the very browser that has signed in, from another port of this machine, where its cookies are
    sent along, from another site, and from a name that was made to mean this machine.
    """
    page = browser.page()
    page.open(small.address())
    assert signed_in(page) == "control"
    node = page.js("location.origin")
    port = node.rsplit(":", 1)[1]
    audit = "SELECT count(*) AS n FROM probing.audit WHERE action <> 'login'"
    before = small.node.rows(audit)[0]["n"]
    settings = small.node(small.pid, "config", "memory.interval").stdout
    words = {"eval_": json.dumps({"target": small.pid, "code": "attacked = 1"}),
             "set": json.dumps({"target": str(small.pid), "set": {"memory.interval": "77"}})}
    # A port without a token is the harder case: whoever asks is let in, but for such a page.
    free = "127.0.0.1:%d" % free_port()
    assert small.node("serve", "--listen", free, "--no-token").returncode == 0
    for to in (node, "http://" + free):
        for site in ("http://127.0.0.1:%d/" % elsewhere, "http://elsewhere.test:%d/" % elsewhere):
            told = page.run(ATTACK, 120, **{"from": site, "to": to + "/"}, **words)
            # A visit by a link shows nothing but an error either.
            assert not told["got"] and str(small.pid) not in told["visited"], (site, to, told)
    # The name of a site that means this machine now: its own page, with the right port.
    for name in ("rebound.test:" + port, "rebound.test:" + free.split(":")[1]):
        told = page.run(ATTACK, 120, **{"from": "http://%s/api/session" % name,
                                        "to": "http://%s/" % name}, **words)
        assert not [one for one in told["got"] if one[1] != 403 and one[0] != "frame"], told
        assert '"denied"' in told["visited"], told
    assert small.node.rows(audit)[0]["n"] == before
    assert small.node(small.pid, "config", "memory.interval").stdout == settings
    answer = small.node(small.pid, "eval", "print('attacked' in globals())")
    assert answer.stdout.strip() == "False"
    # The page itself goes on.
    page.run("await page.reload()")
    assert signed_in(page) == "control"
    page.close()


class Proxy(http.server.BaseHTTPRequestHandler):
    """
    Below a prefix and under a name of its own, as Jupyter's proxy or an ingress has it: what does
    not say that it wants a stream of events gets an answer when there is all of it.
    """
    protocol_version = "HTTP/1.1"
    prefix = "/user/me/proxy"

    def pass_on(self):
        if not self.path.startswith(self.prefix + "/"):
            self.send_error(404)
            return
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length) if length else None
        node = http.client.HTTPConnection(self.server.node, timeout=60)
        node.request(self.command, self.path[len(self.prefix):], body, dict(self.headers))
        answer = node.getresponse()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name not in ("Transfer-Encoding", "Connection"):
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        streams = self.headers.get("Accept") == "text/event-stream"
        try:
            while True:
                data = answer.read1(65536) if streams else answer.read()
                if not data:
                    break
                self.wfile.write(data)
                self.wfile.flush()
        except OSError:
            pass
        node.close()
        self.close_connection = True

    do_GET = do_POST = pass_on

    def log_message(self, *args):
        pass


def test_below_a_prefix(small, browser):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    server.daemon_threads = True
    server.node = small.base().split("/")[2]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = browser.page()
    url = "http://hub.test:%d%s/" % (server.server_port, Proxy.prefix)
    try:
        page.open(url)
        page.wait_text("probing web --url", "body")  # whose name it is must be said
        answer = small.node("web", "--no-browser", "--url", url)
        found = re.match(re.escape(url) + r"#/\?ticket=\w+\n", answer.stdout)
        assert answer.returncode == 0 and found, answer
        assert "http://%s/" % server.node in answer.stderr
        page.run("await page.goto('about:blank')")  # there is no page of ours yet
        page.open(found.group().strip())
        assert signed_in(page) == "control"
        page.wait("document.querySelector('section.panel table')")
        page.go("#/process?p=%d" % small.pid)
        page.wait("document.querySelector('table[aria-label=threads] tbody tr')")
        page.wait("document.querySelector('section[aria-label=Memory] canvas')")
        assert "ticket" not in page.js("location.href")
        report = page.check(allowed=["status of 403"])
        assert all(Proxy.prefix in line or line.endswith("/favicon.ico")
                   for line in report["requests"])
        # Another name is as foreign as before; nonsense is none.
        it = http.client.HTTPConnection(server.node)
        it.request("GET", "/api/session", headers={"Host": "hub.test.evil.example"})
        assert it.getresponse().status == 403
        for wrong in ("hub.test", "ftp://hub.test/", "https://a@hub.test/", "https:///x"):
            assert small.node("web", "--no-browser", "--url", wrong).returncode == 2
    finally:
        page.close()
        server.shutdown()
        server.server_close()


def test_gpus(browser, any_py, tmp_path):
    """Use, memory, power and temperature of each, and what a process has of them."""
    job = agents.Probed(any_py)
    node = Node(tmp_path, FAKE_NVML_PID=job.pid, LD_LIBRARY_PATH=fake_nvml(tmp_path))
    page = browser.page()
    try:
        page.open(node("web", "--no-browser").stdout.strip())
        signed_in(page)
        page.go("#/?p=%d" % job.pid)
        page.wait_text("GPU memory", "table[aria-label='Python processes']", 60)

        def same():
            held = node.rows("SELECT sum(mb) AS mb FROM (SELECT arg_max(memory_used_mb, timestamp) "
                             "AS mb FROM gpu.process GROUP BY uuid)", target=job.pid)[0]["mb"]
            cells = page.table("Python processes")[0]
            assert cells["GPU memory"] == "%d MB" % held, (cells, held)
            assert cells["GPU"].endswith(" %")
        patience.passes(same)
        page.go("#/system")
        for title, unit in (("GPUs in use", "%"), ("GPU memory", "B"), ("GPU power", "W"),
                            ("GPU temperature", "°C")):
            panel = "section[aria-label='%s']" % title
            page.wait("document.querySelector(args.s + ' canvas')", s=panel)
            legend = page.text(panel + " .legend")
            assert legend.startswith("GPU 0") and unit in legend, legend
        page.check()
    finally:
        page.close()
        node.stop()
        job.stop()
        querying.forget(job.pid)
