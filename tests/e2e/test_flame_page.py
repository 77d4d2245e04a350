"""The page of flamegraph in a real browser: looking, searching, comparing; nobody else is asked."""
import json
import os
import re

import pytest

import browsing
import harness
import interpreters

HELP = harness.probing("fg", "-h")
assert HELP.returncode == 0 and "collapsed" in HELP.stdout, HELP
pytestmark = [browsing.needed,
              pytest.mark.skipif("html" not in HELP.stdout, reason="built with WEB=OFF")]
harness.RESTLESS.update({"shares.py"})


@pytest.fixture(scope="module")
def browser():
    browser = browsing.Browser()
    yield browser
    browser.stop()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Pages of recordings, and one of a difference: rest takes longer in the second file."""
    folder = tmp_path_factory.mktemp("pages")
    target = harness.Script(interpreters.newest(), "shares.py")
    try:
        for name, options in (("one.html", []), ("threads.html", ["--idle"])):
            answer = harness.probing(target.pid, "fg", "-d", "1.2", "-o", folder / name, *options)
            assert answer.returncode == 0, answer.stderr
    finally:
        target.stop()
    (folder / "a.collapsed").write_text("main (t.py:1);fast (t.py:2) 600000\n"
                                        "main (t.py:1);rest (t.py:3) 400000\n")
    (folder / "b.collapsed").write_text("main (t.py:1);fast (t.py:2) 100000\n"
                                        "main (t.py:1);rest (t.py:3) 900000\n")
    answer = harness.probing("fg", "--diff", folder / "a.collapsed", folder / "b.collapsed", "-o",
                             folder / "two.html")
    assert answer.returncode == 0, answer.stderr
    return folder


@pytest.fixture
def page(browser, made):
    """page(name, **how): a window with that file, which must have asked nobody for anything."""
    opened = []

    def begin(name="one.html", **how):
        window = browser.page(**how)
        window.open("file://%s" % (made / name))
        opened.append((window, name))
        return window

    yield begin
    for window, name in opened:
        report = window.report()
        assert report["requests"] == ["GET file://%s" % (made / name)], report
        assert not report["console"] and not report["errors"] and not report["policy"], report
        window.close()


def about(window):
    return window.text(".flame-about")


def at_row(window, row, part=0.5):
    """Rests on the graph in that row, outermost 0, at that part of its width."""
    window.run("""const box = await page.locator('.flame-area canvas').boundingBox();
        await page.mouse.move(box.x + box.width * args.part, box.y + 2 + 18 * args.row + 9);""",
               row=row, part=part)


def colours(window, row, parts):
    """In that row, at those parts of its width: red, green, blue, opaqueness."""
    return window.js("""(() => { const c = document.querySelector('.flame-area canvas');
        const y = (2 + 18 * args.row + 4) * (devicePixelRatio || 1);
        const data = c.getContext('2d').getImageData(0, y, c.width, 1).data;
        return args.parts.map((part) => 4 * Math.floor(c.width * part)).map(
            (at) => [...data.slice(at, at + 4)]);
        })()""", row=row, parts=parts)


def test_weight_and_title(page, made):
    window = page()
    assert "shares.py" in window.js("document.title")
    data = window.js("document.getElementById('data').textContent.length")
    assert os.path.getsize(str(made / "one.html")) - data < 60000
    assert "MainThread" in window.text(".flame-tools") and about(window).startswith("all")


def test_zoom_and_back(page):
    window = page()
    at_row(window, 1)
    assert re.match(r"<module>\s+.*shares\.py:\d+", about(window)), about(window)
    assert "main()" in about(window), "the line of the program"
    window.run("await page.mouse.down(); await page.mouse.up()")
    before = about(window)
    at_row(window, 0)
    assert about(window).startswith("all") and before.startswith("<module>")
    # By keys: down to one of the lines of turn, zoom into it, and back to everything.
    window.press("Home")
    for _ in range(3):
        window.press("ArrowDown")
    assert re.match(r"turn\s.*shares\.py:\d+", about(window)), about(window)
    first = about(window)
    window.press("ArrowRight")
    assert about(window) != first
    window.press("ArrowLeft")
    assert about(window) == first
    window.press("Enter")
    at_row(window, 3, 0.98)
    assert about(window) == first, "zoomed: it is as wide as the page"
    window.press("Backspace")
    window.press("Escape")
    at_row(window, 3, 0.02)
    assert about(window) == first, "the widest comes first"


def test_search_says_its_share(page):
    window = page()
    window.press("/")
    window.run("await page.keyboard.type('^(half|fifth)$')")
    share = float(re.match(r"([\d.]+) % match", window.text(".flame-share")).group(1))
    assert 55 < share < 85, share
    window.press("Enter")
    window.press("Escape")
    assert window.text(".flame-share") == ""
    window.press("/")
    window.run("await page.keyboard.type('nobody(')")
    assert window.text(".flame-share").startswith("0.0 %")


def test_threads_filters_and_directions(page):
    window = page("threads.html")
    whole = about(window)
    window.press("t")
    at_row(window, 1, 0.01)
    assert re.match(r"(MainThread|sleeper) \(\d+\)", about(window)), about(window)
    window.press("t")
    window.run("await page.locator('select[aria-label=thread]').selectOption({ index: 1 })")
    assert about(window) != whole
    window.run("await page.locator('select[aria-label=\"which time\"]').selectOption('cpu')")
    window.press("/")
    window.run("await page.keyboard.type('^rest$')")
    share = float(re.match(r"([\d.]+) % match", window.text(".flame-share")).group(1))
    assert share < 10, "it sleeps: found running only as it wakes up"
    window.press("Escape")
    window.press("i")
    assert window.js("document.querySelector('button[aria-pressed=true]').textContent") == "upwards"
    window.run("""const box = await page.locator('.flame-area canvas').boundingBox();
        await page.mouse.move(box.x + 5, box.y + box.height - 8);""")
    assert about(window).startswith("all")


def test_a_window_of_time(page):
    window = page()
    whole = about(window)
    window.run("""const box = await page.locator('.flame-strip canvas').boundingBox();
        await page.mouse.move(box.x + box.width * 0.25, box.y + 10);
        await page.mouse.down();
        await page.mouse.move(box.x + box.width * 0.5, box.y + 10, { steps: 4 });
        await page.mouse.up();""")
    seconds = [float(re.search(r"([\d.]+) (m?s) \(100", text).group(1)) /
               (1000 if "ms (100" in text else 1) for text in (whole, about(window))]
    assert 0.15 < seconds[1] / seconds[0] < 0.35, seconds
    assert "(click: all)" in window.text(".flame-strip")
    window.press("]")
    assert "(click: all)" in window.text(".flame-strip")
    window.press("Escape")
    window.press("Escape")
    assert about(window) == whole


def test_a_difference(page):
    window = page("two.html")
    rest, fast = colours(window, 2, [0.5, 0.95])
    assert rest[0] > rest[2] + 40, rest  # red: it takes longer
    assert fast[2] > fast[0] + 40, fast
    at_row(window, 2, 0.5)
    assert re.match(r"rest\s.*900\.0 ms .*before 400\.0 ms", about(window)), about(window)
    window.press("b")
    at_row(window, 2, 0.3)
    assert re.match(r"fast\s.*600\.0 ms .*now 100\.0 ms", about(window)), about(window)


@pytest.mark.parametrize("dark", [False, True])
def test_small_screens_and_colours(page, dark):
    window = page(width=400, height=600, dark=dark)
    assert window.js("document.documentElement.scrollWidth") <= 400
    paper = window.js("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(22, 24, 27)" if dark else "rgb(255, 255, 255)")
    window.press("d")
    assert window.js("getComputedStyle(document.body).backgroundColor") != paper
    window.press("?")
    assert "zoom" in window.text(".flame-keys")


def test_a_hundred_thousand_nodes(browser, made, tmp_path):
    """It is drawn, and zooms; how fast is the bench's affair."""
    with open(str(made / "one.html"), encoding="utf-8") as file:
        head, rest = file.read().split('id="data">', 1)
    tail = rest[rest.index("</script>"):]
    parent, frame, leaves = [0], [-1], []
    for node in range(1, 100000):
        parent.append(0 if node < 40 else node // 2)
        frame.append(node % 3000)
        leaves += [node, 0, 1, 1 + node % 97]
    data = {"title": "many", "info": "", "threads": ["t"], "parent": parent, "frame": frame,
            "frames": [["f%d" % n, "/m.py", n + 1, n % 2] for n in range(3000)], "leaves": leaves}
    path = tmp_path / "many.html"
    path.write_text(head + 'id="data">' + json.dumps(data) + tail, encoding="utf-8")
    window = browser.page()
    window.open("file://%s" % path)
    assert window.js("document.title") == "many" and colours(window, 1, [0.2])[0][3] == 255
    at_row(window, 1, 0.2)
    window.run("await page.mouse.down(); await page.mouse.up()")
    assert not about(window).startswith("all")
    report = window.report()
    assert not report["errors"] and not report["console"], report
    window.close()
