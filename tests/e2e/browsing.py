"""A real browser for the tests: chromium-headless-shell, driven through playwright-core."""
import json
import os
import queue
import shutil
import subprocess
import threading
import time
import urllib.parse

import pytest

import harness
import patience

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WEB = os.path.join(ROOT, "web")
NODE = os.path.join(ROOT, "build", "npm", "bin", "node")
BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")


def executable():
    found = [path for path in map(shutil.which, BROWSERS) if path]
    return found[0] if found else None


def missing():
    """What is not there, or None."""
    if not os.path.exists(os.path.join(WEB, "node_modules", "playwright-core")):
        return "no playwright-core: tools/setup test"
    if not executable():
        return "no browser: apt-get install chromium-headless-shell"
    return None


needed = pytest.mark.skipif(missing() is not None, reason=missing() or "")


class Browser:
    """within: words in front of the command, for a browser on another machine (hosts.py)."""

    def __init__(self, within=()):
        self.process = subprocess.Popen(
            list(within) + [NODE, os.path.join(ROOT, "tests", "browser", "driver.mjs"), WEB,
                            executable()],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=harness.die_with_parent)
        self.asked, self.answers = 0, queue.SimpleQueue()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.answers.put(json.loads(line))
        self.answers.put(None)

    def ask(self, timeout=patience.SECONDS, **wanted):
        self.asked += 1
        self.process.stdin.write(json.dumps(dict(wanted, id=self.asked)).encode() + b"\n")
        self.process.stdin.flush()
        answer, end = {"id": 0}, time.monotonic() + timeout
        while answer["id"] < self.asked:  # an answer may come after who asked has given up
            try:
                answer = self.answers.get(timeout=max(0, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError("the browser did not answer in %d s: %s"
                                     % (timeout, wanted)) from None
            assert answer, "the browser has gone"
        assert "error" not in answer, answer["error"]
        return answer["ok"]

    def page(self, **how):
        return Page(self, self.ask(do="page", **how))

    def stop(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join()
        self.process.stdout.close()


class Page:
    """One window. Texts are read from the screen; conditions are waited for."""

    def __init__(self, browser, number):
        self.browser, self.number = browser, number
        self.origin = None

    def run(self, script, timeout=2 * patience.SECONDS, **args):
        return self.browser.ask(timeout, do="run", page=self.number, code=script, args=args)

    def open(self, url):
        self.origin = "/".join(url.split("/")[:3])
        self.run("await page.goto(args.url)", url=url)

    def go(self, link):
        """Another place of the same page."""
        self.run("await page.evaluate((l) => { location.hash = l; }, args.link)", link=link)

    def js(self, expression, **args):
        """Of an expression in the page."""
        return self.run("return page.evaluate(new Function('args', 'return (' + args.code + ')'),"
                        " args)", code=expression, **args)

    def text(self, selector="#main"):
        return self.run("return page.locator(args.s).first().innerText()", s=selector)

    def texts(self, selector):
        return self.run("return page.locator(args.s).allInnerTexts()", s=selector)

    def table(self, label):
        """A table by its label: a list of dicts."""
        return self.run("""return page.evaluate((label) => {
            const table = document.querySelector(`table[aria-label=${JSON.stringify(label)}]`);
            const text = (cell) => cell.innerText.replace(/ [↑↓]$/, "").trim();
            const titles = [...table.tHead.rows[0].cells].map(text);
            return [...table.tBodies[0].rows].map((row) => Object.fromEntries(
                [...row.cells].map((cell, i) => [titles[i], text(cell)])));
        }, args.label)""", label=label)

    def click(self, selector, **how):
        self.run("await page.locator(args.s).first().click(args.how)", s=selector, how=how)

    def fill(self, selector, text):
        self.run("await page.locator(args.s).first().fill(args.text)", s=selector, text=text)

    def press(self, keys):
        self.run("await page.keyboard.press(args.keys)", keys=keys)

    def wait(self, condition, timeout=patience.SECONDS, **args):
        """Until an expression in the page is true."""
        try:
            self.run("""const wanted = new Function('args', 'return (' + args.code + ')');
                await page.waitForFunction(wanted, args, { timeout: args.seconds * 1000,
                                                           polling: 100 })""", timeout + 10,
                     code=condition, seconds=timeout, **args)
        except AssertionError as error:
            seen = self.report()
            raise AssertionError("%s is not true after %d s. Shown: %r. Last requests: %s. "
                                 "Console: %s" % (condition, timeout, self.text("body")[:1500],
                                         seen["requests"][-8:], seen["console"])) from error

    def wait_text(self, text, selector="#app", timeout=patience.SECONDS):
        self.wait("(document.querySelector(args.s)?.innerText ?? '').includes(args.text)", timeout,
                  s=selector, text=text)

    def shot(self, path, full=False):
        self.run("await page.screenshot({ path: args.path, fullPage: args.full })", path=str(path),
                 full=full)

    def report(self):
        return self.browser.ask(do="report", page=self.number)

    def check(self, allowed=()):
        """No request to anybody else, nothing on the console, nothing against the policy."""
        report = self.report()
        foreign = [r for r in report["requests"] if not r.split(" ", 1)[1].startswith(self.origin)]
        assert not foreign, foreign
        console = [line for line in report["console"] if not any(word in line for word in allowed)]
        assert not console and not report["errors"] and not report["policy"], report
        return report

    def close(self):
        self.browser.ask(do="close", page=self.number)


def ask_sql(page, sql, **params):
    """Until the answer to this is shown: what was there before stays that long."""
    page.go("#/sql?" + urllib.parse.urlencode(dict(params, q=sql)))
    page.wait("""[...document.querySelectorAll("[role=status]")].some((it) =>
        it.innerText.includes(" rows in ") && (it.dataset.asked ?? "").includes(args.sql))""",
              sql=sql)


def result_rows(page):
    return page.run("""return page.evaluate(() => [...document.querySelectorAll(".result-row")]
        .map((row) => [...row.querySelectorAll("[role=cell]")].map((c) => c.innerText)))""")
