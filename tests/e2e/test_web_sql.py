"""Answers in the SQL page: as a table with all of their digits, and as a chart."""
import pytest

import browsing
import patience
from browsing import ask_sql, result_rows
from nodes import Node

pytestmark = browsing.needed


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    it = Node(tmp_path_factory.mktemp("sql"))
    yield it
    it.stop()


@pytest.fixture(scope="module")
def browser():
    it = browsing.Browser()
    yield it
    it.stop()


@pytest.fixture
def page(browser, node):
    it = browser.page()
    it.open(node("web", "--no-browser").stdout.strip())
    it.wait("document.querySelector('nav')")
    yield it
    it.check()
    it.close()


def test_sql_numbers_are_those_of_the_answer(page):
    ask_sql(page, "SELECT 1234567890123 AS a, -9030871936246003991 AS b, 2 / 3 AS c, 1e9 AS d, "
                  "18446744073709551615::UBIGINT AS e")
    assert result_rows(page) == [["1234567890123", "-9030871936246003991", "0.66666667",
                                  "1000000000", "18446744073709551615"]]
    # None is cut off, and a row can be chosen by keys; then all of its digits are there.
    assert page.js("[...document.querySelectorAll('.result-row > span')].every("
                   "(cell) => cell.scrollWidth <= cell.clientWidth)")
    page.run("""await page.locator(".result").focus()""")
    page.press("ArrowDown")
    page.wait_text("0.6666666666666666", ".record")
    page.press("Escape")
    page.wait("!document.querySelector('.record')")
    ask_sql(page, "SELECT i FROM range(3000) AS r(i)")
    page.run("""await page.locator(".result").focus()""")
    for key in ["ArrowDown"] * 40 + ["ArrowUp"]:
        page.press(key)

    def seen():
        return page.run("""return page.evaluate(() => {
            const box = document.querySelector(".result").getBoundingClientRect();
            const row = document.querySelector(".result-row[aria-current]");
            const { top, bottom } = row?.getBoundingClientRect() ?? {};
            return [row?.querySelector("[role=cell]").innerText,
                    top >= box.top && bottom <= box.bottom];
        })""")
    patience.until(seen, lambda it: it == ["38", True])  # rows are drawn when they come into sight


def inked(page, selector):
    """How many pixels of a picture have a colour."""
    return page.run("""return page.locator(args.s).first().evaluate((canvas) => {
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        let n = 0;
        for (let i = 0; i < data.length; i += 4)
            n += data[i + 3] > 128 && Math.max(data[i], data[i + 1], data[i + 2]) -
                Math.min(data[i], data[i + 1], data[i + 2]) > 60;
        return n;
    })""", s=selector)


def test_sql_as_a_chart(page):
    # Rows of several ranks, none of which are of the same time.
    ask_sql(page, "SELECT TIMESTAMPTZ '2026-11-19 07:00:00+00' + INTERVAL (i) SECOND AS t, "
                  "i % 4 AS rank, 0.5 * i + i % 4 AS loss FROM range(400) AS r(i)", view="chart")
    page.wait("document.querySelector('figure.chart canvas')")
    assert all("rank %d" % rank in page.text(".chart .legend") for rank in range(4))
    patience.passes(lambda: more(inked(page, "figure.chart canvas"), 1500))
    # A line for each row would be more than a browser can hold.
    ask_sql(page, "SELECT i, 2 * i AS n, 'row ' || i AS name FROM range(90000) AS r(i)",
            view="chart", n=100000)
    page.wait_text("18,000 of 90,000 rows, 60 of 18,000 lines", ".sql-main", 60)


def more(found, least):
    assert found > least
