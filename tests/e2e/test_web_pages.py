"""The page in a real browser, against real jobs: what it shows is what SQL says."""
import base64
import json
import os
import urllib.parse

import pytest

import browsing
import patience
import webjobs
from browsing import ask_sql, result_rows

pytestmark = [browsing.needed, webjobs.needed]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    it = webjobs.Jobs(tmp_path_factory.mktemp("pages"))
    it.hold()
    yield it
    it.stop()


@pytest.fixture(scope="module")
def browser():
    it = browsing.Browser()
    yield it
    it.stop()


@pytest.fixture
def page(browser, jobs):
    """A window that is signed in; in the end nothing was asked elsewhere or went wrong."""
    it = browser.page()
    it.open(jobs.address())
    it.wait("document.querySelector('nav')")
    it.allowed = []  # browsers note each answer of 400 on the console
    yield it
    it.check(it.allowed)
    it.close()


def number(text):
    """The number that a cell begins with; of "<0.1" it is anything up to that."""
    if text.startswith("<"):
        return number(text[1:]) / 2
    return float(text.split()[0].replace(",", ""))


def milliseconds(text):
    value, unit = text.split()
    return number(value) * {"ns": 1e-6, "µs": 1e-3, "ms": 1, "s": 1000, "min": 60000}[unit]


def megabytes(text):
    value, unit = text.split()
    return number(value) * {"B": 1 / 1048576, "kB": 1 / 1024, "MB": 1, "GB": 1024}[unit]


def close(a, b):
    """Equal as far as three digits show it."""
    return a == pytest.approx(b, rel=0.006, abs=1e-9)


def test_overview(page, jobs):
    label = page.run("""await page.waitForSelector("section.panel table");
        return (await page.locator("section.panel").first().getAttribute("aria-label"))""")
    assert label.startswith("web_train.py --hold")

    def same():
        shown = page.table(label)
        said = jobs.node.rows(
            "SELECT rank, pid, max(step) AS step, median(step_ms) AS ms, arg_max(loss, timestamp) "
            "AS loss, 100 * sum(data_ms) / sum(step_ms) AS data FROM python.training_logs WHERE "
            "rank IS NOT NULL GROUP BY rank, pid ORDER BY rank",
            target=",".join(map(str, jobs.four)))
        assert len(shown) == len(said) == 4
        for cells, row in zip(shown, said):
            assert (number(cells["rank"]), number(cells["pid"]), number(cells["step"])) == (
                row["rank"], row["pid"], row["step"])
            assert close(milliseconds(cells["step time"]), row["ms"])
            assert close(number(cells["loss"]), row["loss"])
            assert number(cells["data"]) == pytest.approx(row["data"], abs=0.06)
            assert cells["state"] in ("running", "waiting")
            assert 0 < megabytes(cells["memory"]) < 4000
    patience.passes(same)
    # The slow rank waits for its data.
    assert max(page.table(label), key=lambda cells: number(cells["data"]))["rank"] == "2"
    dead = [row for row in page.table("Python processes") if row["pid"] == str(jobs.dead)][0]
    assert dead["state"].startswith("ended") and number(dead["step"]) >= 39
    page.wait_text("ended", "table[aria-label=changes]")
    assert page.js("[...document.querySelectorAll('#main a')].every((a) => a.innerText.trim() || "
                   "a.ariaLabel)")  # what is not known leads nowhere


def test_process(page, jobs):
    page.go("#/process?p=%d&locals=1" % jobs.one)
    page.wait("document.querySelector('table[aria-label=threads] tbody tr')")

    def same():
        said = jobs.node.rows("SELECT * FROM python.threads ORDER BY is_main DESC, cpu_ms DESC",
                              target=jobs.one)
        shown = page.table("threads")
        assert [(int(t["tid"]), t["name"]) for t in shown] == [(t["tid"], t["thread"])
                                                                for t in said]
        for cells, row in zip(shown, said):
            assert (cells["GIL"] == "holds it") == row["holds_gil"]
            # A frame's line is inside the function that it names.
            assert row["top_func"] in cells["in"]
    patience.passes(same)
    page.wait_text("main", ".stacks")
    stacks = page.text(".stacks")
    assert "MainThread" in stacks and "web_train.py:" in stacks
    # Variables, with scope look or more: options is one of the loop's.
    assert {"began", "batch"} & set(page.texts(".locals dt"))
    page.wait("document.querySelector('section[aria-label=Memory] canvas')")
    page.click("button:has-text('native')")
    page.wait_text("libc", ".stacks")


def test_settings_are_changed_where_that_is_permitted(page, jobs, browser):
    page.go("#/process?p=%d" % jobs.one)
    box = "input[aria-label='memory.interval']"
    page.wait("document.querySelector(args.s)", s=box)
    page.fill(box, "0.5")
    page.press("Enter")
    patience.passes(lambda: check(jobs.node(jobs.one, "config", "memory.interval").stdout, "0.5"))
    page.allowed = ["status of 400"]
    page.fill(box, "nonsense")
    page.press("Enter")
    page.wait("document.querySelector('.setting .bad')")
    page.press("Escape")
    # A process has no settings of the node, and the node none of processes.
    assert "retention.days" not in page.text("table[aria-label='Settings of this process']")
    page.go("#/system")
    page.wait_text("retention.days", "table[aria-label='Settings of the node']")
    assert "torch.collect" not in page.text("table[aria-label='Settings of the node']")
    other = browser.page()
    other.open(jobs.link("process", scope="read", p=jobs.one))
    other.wait_text("memory.interval")
    assert other.js("document.querySelectorAll('.setting input').length") == 0
    assert "locals" not in other.texts("section[aria-label='Stacks, now'] button")
    other.go("#/console?p=%d" % jobs.one)
    other.wait_text("scope control")
    other.close()


def check(text, part):
    assert part in text, text


def test_an_ended_process_still_answers(page, jobs):
    page.go("#/training?p=%d&r=1h" % jobs.dead)
    page.wait("document.querySelector('table[aria-label=ranks] tbody tr')")
    said = jobs.node.rows("SELECT max(step) AS step, median(step_ms) AS ms FROM "
                          "python.training_logs WHERE step_ms IS NOT NULL", target=jobs.dead)[0]
    shown = page.table("ranks")[0]
    assert number(shown["step"]) == said["step"] and close(milliseconds(shown["step time"]),
                                                           said["ms"])


def test_training(page, jobs):
    target = ",".join(map(str, jobs.four))
    page.go("#/training?p=" + target)
    page.wait("document.querySelectorAll('table[aria-label=ranks] tbody tr').length === 4")

    def same():
        said = jobs.node.rows(
            "SELECT rank, max(step) AS step, median(step_ms) AS ms, quantile_cont(step_ms, 0.99) "
            "AS p99, avg(samples_per_s) AS pace, arg_max(loss, timestamp) AS loss FROM "
            "python.training_logs WHERE step_ms IS NOT NULL GROUP BY rank ORDER BY rank",
            target=target)
        for cells, row in zip(page.table("ranks"), said):
            assert number(cells["step"]) == row["step"]
            assert close(milliseconds(cells["step time"]), row["ms"])
            assert close(milliseconds(cells["99 %"]), row["p99"])
            assert close(number(cells["samples/s"]), row["pace"])
            assert close(number(cells["loss"]), row["loss"])
    patience.passes(same)
    # The chart of the loss by step, as the table that it can be turned into.
    page.go("#/training?x=step&p=" + target)
    page.click("section[aria-label=Loss] figcaption button")
    page.wait("document.querySelector('section[aria-label=Loss] table tbody tr')")

    def as_charted():
        rows = page.run("""return page.evaluate(() => [...document.querySelectorAll(
            "section[aria-label=Loss] table tbody tr")].map((r) => [...r.cells].map(
            (c) => c.innerText)))""")
        said = {row["step"]: row["loss"] for row in jobs.node.rows(
            "SELECT step, avg(loss) AS loss FROM python.training_logs WHERE rank = 0 GROUP BY step",
            target=target)}
        assert len(rows) >= 3
        for cells in rows:
            if cells[1]:
                assert close(number(cells[1]), said[int(cells[0])])
        assert sum(bool(cells[1]) for cells in rows) >= 3
    patience.passes(as_charted)


def test_a_number_leads_to_its_rows(page, jobs):
    page.go("#/training?p=" + ",".join(map(str, jobs.four)))
    page.wait("document.querySelectorAll('table[aria-label=ranks] tbody tr').length === 4")
    page.click("table[aria-label=ranks] tbody tr:nth-child(3) td:nth-child(4) a")
    page.wait("document.querySelector('[role=status]')?.innerText.includes(' rows in ')")
    assert page.js("location.hash.startsWith('#/sql')")
    said = jobs.node.rows("SELECT count(*) AS n FROM python.training_logs WHERE pid = %d"
                          % jobs.four[2], target=jobs.four[2])[0]["n"]
    assert page.text(".sql-main [role=status]").startswith("%s rows in " % format(said, ","))
    titles = page.texts(".result-head button")
    at = titles.index("pid")
    assert {row[at] for row in result_rows(page)} == {str(jobs.four[2])}
    page.run("await page.goBack()")
    page.wait("location.hash.startsWith('#/training')")


def test_runs_are_compared(page, jobs):
    """Another run is put beside what is shown, by step, over the time of both."""
    page.go("#/training?r=1m&p=%d" % jobs.one)
    page.wait("document.querySelectorAll('table[aria-label=ranks] tbody tr').length === 1 || "
              "document.querySelector('.nothing p')")
    page.run("""await page.locator("select[aria-label='compare with']").selectOption(
        await page.locator("select[aria-label='compare with'] option", { hasText: "(ended)" })
            .first().getAttribute("value"))""")
    page.wait("location.hash.includes('x=step') && document.querySelectorAll("
              "'table[aria-label=ranks] tbody tr').length === 2")

    def same():
        said = {row["pid"]: row["n"] for row in jobs.node.rows(
            "SELECT pid, max(step) AS n FROM python.training_logs WHERE step_ms IS NOT NULL "
            "GROUP BY pid", target="%d,%d" % (jobs.one, jobs.dead))}
        shown = {int(cells["pid"]): number(cells["step"]) for cells in page.table("ranks")}
        assert shown == said and set(said) == {jobs.one, jobs.dead}
    patience.passes(same)
    legend = page.text("section[aria-label=Loss] .legend")
    assert str(jobs.one) in legend and str(jobs.dead) in legend


def test_modules(page, jobs):
    target = ",".join(map(str, jobs.four))
    page.go("#/modules?p=" + target)
    page.wait("document.querySelectorAll('table[aria-label=modules] tbody tr').length > 10")

    def same():
        said = {row["type"]: row for row in jobs.node.rows(
            "SELECT module_type AS type, count(*) AS calls, median(duration_ms) AS median, "
            "max(duration_ms) AS longest, sum(duration_ms) / count(DISTINCT (pid, step)) AS step "
            "FROM python.torch_trace WHERE stage = 'forward' AND phase = 'train' AND module_type "
            "IN ('DistributedDataParallel', 'LanguageModel', 'Embedding') GROUP BY 1",
            target=target)}
        shown = {row["type"]: row for row in page.table("modules")}
        assert len(said) == 3
        for kind, row in said.items():
            assert number(shown[kind]["calls"]) == row["calls"]
            assert close(milliseconds(shown[kind]["time a step"]), row["step"])
            assert close(milliseconds(shown[kind]["median call"]), row["median"])
            assert close(milliseconds(shown[kind]["longest"]), row["longest"])
    patience.passes(same)

    def slowest():
        said = jobs.node.rows(
            "SELECT module, sum(self_ms) / count(DISTINCT (pid, step)) AS ms, count(*) OVER () AS "
            "n FROM python.torch_trace WHERE stage = 'forward' AND phase = 'train' GROUP BY root, "
            "module ORDER BY ms DESC LIMIT 10", target=target)
        shown = page.table("slowest modules")
        assert [cells["module"] for cells in shown] == [row["module"] for row in said]
        assert all(close(milliseconds(c["own"]), row["ms"]) for c, row in zip(shown, said))
        assert "10 of %d" % said[0]["n"] in page.text("section[aria-label=Slowest]")
    patience.passes(slowest)
    page.wait_text("40 of 44 modules", "section[aria-label='Modules over steps']")
    page.fill("input[aria-label='filter modules']", "norm1")
    page.wait("[...document.querySelectorAll('table[aria-label=modules] td:nth-child(2)')]"
              ".filter((c) => c.innerText).every((c) => c.innerText === 'LayerNorm')")
    page.click("button:has-text('optimizer')")
    page.wait("location.hash.includes('stage=optimizer')")


def test_flame(page, jobs):
    """The same tree as the node tells, zoomed into, compared, and back by its link."""
    target = ",".join(map(str, jobs.four))
    page.go("#/flame?p=" + target)
    page.wait("document.querySelector('.flame-area canvas') && "
              "document.querySelectorAll('table[aria-label=functions] tbody tr').length > 3")

    def same():
        said = jobs.node.rows(
            "SELECT f.func, sum(s.weight_ms) AS ms FROM python.samples AS s JOIN (SELECT DISTINCT "
            "stack_id, func FROM python.stack_frames WHERE depth = 0) AS f USING (stack_id) WHERE "
            "s.tid = s.pid OR (s.state <> 'idle' AND (s.pid, s.tid) IN (SELECT (pid, tid) FROM "
            "python.samples WHERE on_cpu)) GROUP BY f.func ORDER BY ms DESC", target=target)
        whole = sum(row["ms"] for row in said)
        shown = page.table("functions")[0]
        assert said[0]["func"] in shown["function"]
        # The graph and the table are of the same threads.
        drawn = page.text(".flame-about").split()
        assert drawn[0] == "all" and float(drawn[1]) == pytest.approx(whole / 1000, rel=0.03), drawn
        assert number(shown["own"]) == pytest.approx(100 * said[0]["ms"] / whole, abs=0.5)
    patience.passes(same)
    page.run("""await page.locator(".flame-area").focus()""")
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.press(key)
    page.wait("location.hash.includes('z=')")
    about = page.text(".flame-about")
    assert ".py:" in about and "own" in about, about
    # The link alone leads to the same place.
    other = page.js("location.hash")
    page.go("#/system")
    page.wait("!document.querySelector('.flame-area')")
    page.go(other)
    page.wait_text(about.split("   ")[0], ".flame-about")  # with its file, without its time
    # One rank against the median of the others: the slow one is where they are not.
    page.go("#/flame?vs=median&p=%d" % jobs.four[2])
    page.wait("!document.querySelector('.flame-tools button:nth-of-type(3)')?.hidden")
    page.wait_text("compared with the median of ", "#main")


def test_a_flame_graph_of_nothing_says_why(page, jobs):
    page.go("#/flame?p=%d&r=1000000000-1000000060" % jobs.one)
    page.wait_text("no samples", "#main")
    page.wait_text("probing PID inject", "#main")


def test_a_trace_is_handed_to_perfetto(page, jobs, tmp_path):
    """Its window gets the bytes when it says that it is there; no request of ours leaves."""
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    page.go("#/training?p=" + ",".join(map(str, jobs.four)))
    page.wait("document.querySelector('table[aria-label=ranks] tbody tr')")
    page.run("""await page.evaluate(() => {
        window.handed = [];
        const there = { closed: false, close() {}, postMessage(data, origin) {
            window.handed.push([data === "PING" ? data : data.perfetto, origin]);
            if (data === "PING") {
                const event = new MessageEvent("message", { data: "PONG", origin });
                Object.defineProperty(event, "source", { value: there });
                dispatchEvent(event);
            } } };
        window.open = (url) => { window.opened = url; return there; };
    })""")
    page.click("button:has-text('Perfetto')")
    page.wait("window.handed.some(([data]) => data.buffer)")
    assert page.js("window.opened") == "https://ui.perfetto.dev"
    assert page.js("window.handed.every(([, to]) => to === 'https://ui.perfetto.dev')")
    text = page.run("""return page.evaluate(() => new Promise((done) => {
        const reader = new FileReader();
        reader.onload = () => done(reader.result.split(",")[1]);
        reader.readAsDataURL(new Blob([window.handed.find(([d]) => d.buffer)[0].buffer]));
    }))""")
    trace = protos.Trace()
    trace.ParseFromString(base64.b64decode(text))
    names = {packet.track_descriptor.name for packet in trace.packet}
    assert {"steps", "modules", "collectives", "resident memory"} <= names
    path = os.path.join(str(tmp_path), "saved.json")
    page.run("""const [file] = await Promise.all([page.waitForEvent("download"),
        page.locator("select[aria-label='save a trace of this time']").selectOption("chrome")]);
        await file.saveAs(args.path);""", path=path)
    with open(path) as file:
        events = json.load(file)["traceEvents"]
    assert {"steps", "modules"} <= {event.get("cat") for event in events}


def test_communication(page, jobs):
    target = ",".join(map(str, jobs.four))
    page.go("#/communication?p=" + target)
    page.wait("document.querySelectorAll(\"table[aria-label='late ranks'] tbody tr\").length === 4")

    def same():
        said = jobs.node.rows("SELECT op, count(*) AS n, median(latency_ms) AS ms, sum(bytes) AS "
                              "bytes FROM comm_metrics GROUP BY op ORDER BY sum(latency_ms) DESC",
                              target=target)
        shown = page.table("operations")
        assert [cells["operation"] for cells in shown] == [row["op"] for row in said]
        for cells, row in zip(shown, said):
            assert number(cells["times"]) == row["n"]
            assert close(milliseconds(cells["median"]), row["ms"])
            assert close(megabytes(cells["in all"]), row["bytes"] / 1048576)
        late = jobs.node.rows("SELECT rank, late_ms, last_pct FROM slow_ranks ORDER BY late_ms "
                              "DESC", target=target)
        for cells, row in zip(page.table("late ranks"), late):
            assert int(cells["rank"]) == row["rank"]
            assert close(milliseconds(cells["comes late by"]), row["late_ms"])
    patience.passes(same)
    assert page.table("late ranks")[0]["rank"] == "2"
    # They are of the time that is shown.
    page.go("#/communication?r=1000000000-1000000060&p=" + target)
    page.wait_text("No collective that several ranks were seen in")
    assert not page.js("!!document.querySelector(\"table[aria-label='late ranks']\")")


def test_memory(page, jobs):
    page.go("#/memory?p=%d" % jobs.one)
    page.wait("document.querySelector(\"table[aria-label='memory of processes'] tbody tr\")")

    def same():
        row = jobs.node.rows("SELECT arg_max(memory_mb, timestamp) AS now, max(memory_mb) AS peak "
                             "FROM memory_usage", target=jobs.one)[0]
        cells = page.table("memory of processes")[0]
        assert close(megabytes(cells["now"]), row["now"])
        assert close(megabytes(cells["peak"]), row["peak"])
    patience.passes(same)
    page.wait("document.querySelector(\"section[aria-label='Resident memory'] canvas\")")
    page.wait_text("Nothing grows from step to step")
    # Which lines allocated it, from when somebody asks.
    sites = "section[aria-label='Memory by the line that allocated it']"
    page.wait_text("memory.sites=on", sites)  # why there are none
    page.click(sites + " button:has-text('begin')")
    patience.passes(lambda: check(jobs.node(jobs.one, "config", "memory.sites").stdout, "on"))
    jobs.node(jobs.one, "eval", "def keep():\n    return [bytes(100000) for _ in range(400)]\n"
                                "kept = keep()")

    def allocated():
        said = jobs.node.rows("SELECT func, live_mb, live_blocks FROM alloc_sites ORDER BY live_mb "
                              "DESC", target=jobs.one)[0]
        cells = [row for row in page.table("allocation sites") if row["by"].startswith("keep")][0]
        assert said["func"].startswith("keep")
        assert close(megabytes(cells["in use"]), said["live_mb"])
        assert close(number(cells["blocks"]), said["live_blocks"])
    patience.passes(allocated)
    assert jobs.node(jobs.one, "config", "memory.sites=off").returncode == 0
    # Objects by type, when asked for; a second look tells what has grown.
    page.click("button:has-text('look now')")
    page.wait("document.querySelectorAll(\"table[aria-label='objects by type'] tbody tr\")"
              ".length === 25")
    said = {row["type"]: row for row in jobs.node.rows(
        "SELECT type, \"count\" AS n FROM python.heap WHERE module = 'builtins'", target=jobs.one)}
    shown = {row["type"]: row for row in page.table("objects by type")}
    assert number(shown["function"]["objects"]) == pytest.approx(said["function"]["n"], rel=0.01)
    jobs.node(jobs.one, "eval", "grown = [[i] for i in range(30000)]")
    page.click("button:has-text('look again')")
    page.wait_text("more objects", "table[aria-label='objects by type']")
    assert [row for row in page.table("objects by type")[:4]
            if row["type"] == "list" and number(row["more objects"]) >= 30000]


def test_system(page, jobs):
    page.go("#/system")
    page.wait("document.querySelector('table[aria-label=cost] tbody tr')")
    assert {"node", "agent", "sql"} <= {row["part"] for row in page.table("cost")}
    page.wait("document.querySelector('section[aria-label=Processors] canvas')")
    page.wait_text("libnvidia-ml.so.1", "section[aria-label=GPUs]")  # why there are none
    total = jobs.node.rows("SELECT max(memory_total_mb) AS mb FROM system.machine")[0]["mb"]
    legend = page.text("section[aria-label='Main memory'] .legend")
    assert close(megabytes(legend.split("total")[1].strip().split("\n")[0].replace("\u00a0", " ")
                           .split("swap")[0].strip()), total)


def test_sql_shows_the_answer(page, jobs):
    ask_sql(page, "SELECT i, 'row ' || i AS name, i / 3 AS third FROM range(81233) AS r(i) "
                  "WHERE i % 2 = 0")
    assert page.text(".sql-main [role=status]").startswith("5,000 of 40,617 rows in ")
    rows = result_rows(page)
    assert rows[0] == ["0", "row 0", "0"] and rows[1] == ["2", "row 2", "0.66666667"]
    # Sorted by a click: before it is cut off, not after.
    page.click(".result-head button:has-text('name')")
    page.wait("document.querySelector('.result-row [role=cell]')?.innerText === '9998'")
    assert result_rows(page)[0][1] == "row 9998"
    # The last of the rows that are there can be scrolled to.
    page.wait("(document.querySelector('.result').scrollTop = 1e9, "
              "[...document.querySelectorAll('.result-row .result-number')].at(-1).innerText "
              "=== '5000')")


def test_sql_that_is_wrong_says_where(page):
    page.allowed = ["status of 400"]
    sql = "SELECT 'ü', modul\nFROM python.torch_trace"
    page.go("#/sql?" + urllib.parse.urlencode({"q": sql}))
    page.wait_text("modul", "p[role=alert]")
    assert "nearest: module, module_type" in page.text("p[role=alert]")
    marked = page.run("""return page.evaluate(() => document.querySelector(".editor").shadowRoot
        .querySelector(".cm-wrong")?.textContent)""")
    assert marked == "modul"


def test_sql_completes_names_with_what_they_mean(page):
    ask_sql(page, "SELECT 1 AS x")
    page.wait_text("python.training_logs", "aside.tables")
    page.run("""await page.locator(".editor .cm-content").click();
        await page.keyboard.press("Control+a");
        await page.keyboard.type("SELECT step_ms FROM python.training_logs WHERE grad_n");
        await page.locator(".editor .cm-tooltip-autocomplete li").first().waitFor();""")
    assert "grad_norm" in page.text(".editor .cm-tooltip-autocomplete li")
    page.wait("document.querySelector('.editor').shadowRoot.querySelector('.cm-completionInfo')"
              "?.innerText.includes('norm of the gradients')")
    page.run("await page.waitForTimeout(300)")  # a list that just came is not taken by a key
    page.press("Enter")
    text = page.run("""return page.locator(".editor .cm-content").innerText()""")
    assert text.endswith("WHERE grad_norm")


def test_sql_history_plan_chart_and_files(page, jobs, tmp_path):
    ask_sql(page, "SELECT 41 + 1 AS answer")
    ask_sql(page, "SELECT i AS x, i * i AS y FROM range(50) AS r(i)")
    page.click("button:has-text('history')")
    page.click(".past button:has-text('41 + 1')")
    page.wait("document.querySelector('.result-row [role=cell]')?.innerText === '42'")
    page.click("button:has-text('plan')")
    page.wait_text("Total Time", ".plan")
    ask_sql(page, "SELECT i AS x, i * i AS y FROM range(50) AS r(i)", view="chart")
    page.wait("document.querySelector('figure.chart canvas')")
    assert "2,401" in page.text(".chart .legend")
    for form, begins in (("csv", b"x,y\n0,0\n1,1\n"), ("parquet", b"PAR1"), ("json", b"[{")):
        path = os.path.join(str(tmp_path), "saved." + form)
        page.run("""const [file] = await Promise.all([page.waitForEvent("download"),
            page.locator("select[aria-label='save all rows as']").selectOption(args.form)]);
            await file.saveAs(args.path);""", form=form, path=path)
        with open(path, "rb") as file:
            assert file.read().startswith(begins), form


def test_console_runs_code_and_shows_who_did(page, jobs):
    page.go("#/console?p=%d" % jobs.one)
    page.wait("document.querySelector('textarea')")

    def run(code, shows):
        page.wait("!document.querySelector('.entry button')")
        page.fill("textarea", code)
        page.press("Enter")
        page.wait_text(shows, ".entry:nth-last-child(2)")
    run("RANK + 41", "41")
    run("'<script>window.hacked=4</script>' + '!'", "</script>!")
    run("for i in range(2):\n    print('line', i)\n", "line 1")
    run("1/0", "ZeroDivisionError: division by zero")
    page.wait("!document.querySelector('.entry button')")
    page.fill("textarea", "import time; time.sleep(60)")
    page.press("Enter")
    page.click("button:has-text('interrupt')")
    page.wait_text("interrupted", ".entry:nth-last-child(2)")
    patience.passes(lambda: check(page.text("table[aria-label=audit]"), "RANK + 41"))
    said = jobs.node.rows("SELECT detail FROM probing.audit WHERE action = 'eval'",
                          target=jobs.one)
    assert "RANK + 41" in [row["detail"] for row in said]


def test_what_comes_from_a_target_is_text(page, jobs):
    """Names that are markup: of a thread, a function, a class, an exception, a cell."""
    for place, wanted in (("process?p=%d" % jobs.one, "<script>window.hacked=3</script>"),
                          ("process?p=%d" % jobs.one, "<img src=x onerror=window.hacked=2>"),
                          ("modules?p=%d" % jobs.one, "<script>window.hacked=1</script>")):
        page.go("#/" + place)
        page.wait("document.querySelectorAll('#main tbody tr').length > 1")
        page.run("""await page.evaluate(() => document.querySelectorAll("details").forEach((d) => {
            d.open = true; }))""")
        patience.passes(lambda text=wanted: check(page.text(), text))
    ask_sql(page, "SELECT '<img src=x onerror=window.hacked=5>' AS \"<b>x</b>\"")
    assert "<img src=x" in page.text(".result") and "<b>x</b>" in page.text(".result-head")
    page.go("#/console?p=%d" % jobs.one)
    page.fill("textarea", "raise ValueError('<img src=x onerror=window.hacked=6>')")
    page.press("Enter")
    page.wait_text("ValueError: <img src=x", ".transcript")
    for name in ("overview", "training", "communication", "memory", "system"):
        page.go("#/" + name)
        page.wait("document.querySelector('section.panel')")
    assert page.js("window.hacked") is None
    assert not page.js("document.querySelectorAll('#app img, #app script').length")


def test_every_view_leads_to_its_sql(page, jobs):
    page.go("#/memory?p=%d" % jobs.one)
    page.wait("document.querySelector(\"section[aria-label='Resident memory'] canvas\")")
    page.click("section[aria-label='Resident memory'] .source button")
    sql = page.text(".source-box pre")
    assert "FROM memory_usage" in sql and "INTERVAL 600 SECOND" in sql
    page.click(".source-box a:has-text('open in SQL')")
    page.wait("document.querySelector('[role=status]')?.innerText.includes(' rows in ')")
    assert len(result_rows(page)) > 3
    # The command line that it can be copied as says the same.
    shown = json.loads(jobs.node(jobs.one, "query", "-f", "json", sql).stdout)
    assert close(float(result_rows(page)[0][3]), shown[0]["memory_mb"])
