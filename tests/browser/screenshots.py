"""Pictures of every page of a real run: a training process, four ranks under torchrun, a dead one.

usage: PROBING_BIN=… python tests/browser/screenshots.py FOLDER [--all] [--seconds N] [PAGE...]
With --all each page at 1,400 and at 400 pixels, light and dark, as long as it is; else as much of
it as a screen shows, for docs/web.
"""
import argparse
import os
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, "e2e"))

import browsing  # noqa: E402
import webjobs  # noqa: E402

PAGES = ("overview", "process", "training", "modules", "flame", "communication", "memory", "sql",
         "console", "system")
SQL = """SELECT rank, module, count(*) AS calls, avg(duration_ms) AS ms, max(duration_ms) AS longest
FROM python.torch_trace
WHERE stage = 'forward' AND module <> ''
GROUP BY rank, module ORDER BY ms DESC"""


class Demo(webjobs.Jobs):
    """The same jobs as in the tests, without names that are markup."""

    def start(self):
        self.holding = ""
        self.dead, = self.job(1, "--step-ms", "40", "--steps", "150", "--lr", "1e-3")
        self.inject(self.dead)
        self.one, = self.job(1, "--step-ms", "120")
        self.four = self.job(4, "--step-ms", "300", "--slow-rank", "2")
        self.inject(self.one, *self.four)
        self.all = [self.one] + self.four

    def place(self, page):
        """The link of a page, as a reader would have it."""
        four, one = ",".join(map(str, self.four)), str(self.one)
        own = ",".join(map(str, [self.dead, self.one] + self.four))
        return {
            "overview": {"p": own}, "process": {"p": one, "locals": "1"}, "training": {"p": four},
            "modules": {"p": four}, "flame": {"p": four}, "communication": {"p": four},
            "memory": {"p": four}, "sql": {"p": four, "q": SQL}, "console": {"p": one},
            "system": {},
        }[page]


def settle(page, name):
    """Until what the page is about is on the screen."""
    page.wait("document.querySelector('#main tbody tr, #main canvas, .result-row, textarea')", 60)
    if name == "overview":  # until each has its verdict
        page.wait("![...document.querySelectorAll('td')].some((c) => c.innerText === '…')", 60)
    if name == "console":
        for code in ("RANK, WORLD", "model = type(options).__name__; model",
                     "import torch; torch.get_num_threads()"):
            page.wait("!document.querySelector('.entry button')")
            page.fill("textarea", code)
            page.press("Enter")
            page.run("await page.waitForTimeout(400)")
    page.run("await page.waitForTimeout(3000)")


def take(demo, browser, folder, names, widths, darks):
    whole = len(widths) > 1
    for width in widths:
        for dark in darks:
            page = browser.page(width=width, height=900 if width > 700 else 800, dark=dark)
            page.open(demo.address())
            page.wait("document.querySelector('nav')")
            for name in names:
                params = demo.place(name)
                page.run("""await page.evaluate((l) => { location.hash = l; },
                    "#/" + args.page + "?" + new URLSearchParams(args.params))""",
                         page=name, params=params)
                settle(page, name)
                plain = width == 1400 and not dark
                what = name if plain else "%s-%d-%s" % (name, width, "dark" if dark else "light")
                page.shot(os.path.join(folder, what + ".png"), full=whole)
            report = page.report()
            print(width, dark, report["console"], report["errors"], report["policy"], flush=True)
            page.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seconds", type=float, default=60, help="how long the jobs train first")
    parser.add_argument("pages", nargs="*", default=PAGES)
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    widths, darks = ((1400, 400), (False, True)) if options.all else ((1400,), (False,))
    with tempfile.TemporaryDirectory() as place:
        demo, browser = Demo(place), browsing.Browser()
        try:
            time.sleep(options.seconds)
            take(demo, browser, options.folder, options.pages or PAGES, widths, darks)
        finally:
            browser.stop()
            demo.stop()


if __name__ == "__main__":
    main()
