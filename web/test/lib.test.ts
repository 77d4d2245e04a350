import assert from "node:assert/strict";
import { test } from "node:test";
import {
  counted,
  duration,
  milliseconds,
  megabytes,
  number,
  percent,
  quantity,
  shortCommand,
  shortPath,
  tick,
} from "../src/lib/format.ts";
import { clockOf, coverageText, isPartial } from "../src/lib/cluster.ts";
import { deviation, median, slots } from "../src/lib/job.ts";
import { formatLink, linkTo, parseLink } from "../src/lib/link.ts";
import { formatOrder, parseOrder, slug } from "../src/lib/linked.ts";
import {
  fromTold,
  isCrowd,
  jobsOf,
  type Process,
  shadowed,
  unambiguous,
} from "../src/lib/processes.ts";
import { bucketOf, formatRange, parseRange } from "../src/lib/range.ts";
import { firstOf, union } from "../src/lib/ranks.ts";
import { grow, isNumeric, NO_ROWS, objects, type Result } from "../src/lib/rows.ts";
import { Bulk, characterAt, sortedSql } from "../src/lib/bulk.ts";
import { isComplete } from "../src/lib/python.ts";
import { byProcess, coloured, held } from "../src/lib/series.ts";
import { treeOf, visible } from "../src/lib/tree.ts";
import { lonely, stack, withGaps } from "../src/lib/gaps.ts";
import { heightsOf, roundSteps } from "../src/view/chart.tsx";
import { drawn } from "../src/view/resultchart.tsx";
import { limits } from "../src/view/heatmap.tsx";
import { EventParser } from "../src/lib/sse.ts";
import { commandLine, forPeople, forStream, quote } from "../src/lib/sql.ts";

test("numbers have the digits that say something", () => {
  assert.deepEqual(
    [0, 0.0234, 0.00001234, 41.23, 999.4, 1841, 81233.4, null].map((v) => number(v)),
    ["0", "0.0234", "1.23e-5", "41.2", "999", "1,841", "81,233", ""],
  );
  assert.deepEqual([0.4, 12.34, 99.96, 100, 0.01].map(percent), [
    "0.4 %",
    "12.3 %",
    "100 %",
    "100 %",
    "<0.1 %",
  ]);
  assert.equal(percent(0), "0 %");
});

test("two marks of an axis never read the same", () => {
  const marks = (unit: string, step: number, from: number) =>
    [0, 1, 2].map((i) => tick(from + i * step, step, unit));
  assert.deepEqual(marks("MB", 0.2, 313), ["313 MB", "313.2 MB", "313.4 MB"]);
  assert.deepEqual(marks("MB", 512, 512), ["512 MB", "1 GB", "1.5 GB"]);
  assert.deepEqual(marks("%", 2.5, 0), ["0 %", "2.5 %", "5 %"]);
  assert.deepEqual(marks("", 5e-7, 0.0002985), ["0.0002985", "0.000299", "0.0002995"]);
  assert.deepEqual(marks("", 2e-6, 2e-6), ["2e-6", "4e-6", "6e-6"]);
  assert.deepEqual(marks("", 100, 1133800), ["1.1338 M", "1.1339 M", "1.134 M"]);
  assert.deepEqual(marks("ms", 200, 800), ["800 ms", "1 s", "1.2 s"]);
  assert.deepEqual(marks("ms", 500, 0), ["0 ms", "500 ms", "1 s"]);
  assert.deepEqual(marks("MB/s", 0.25, 0), ["0 kB/s", "256 kB/s", "512 kB/s"]);
  assert.deepEqual(marks("W", 100, 0), ["0 W", "100 W", "200 W"]);
  assert.deepEqual(marks("C", 20, 0), ["0 °C", "20 °C", "40 °C"]);
  assert.deepEqual(marks("1/s", 5, 0), ["0/s", "5/s", "10/s"]);
});

test("units grow with the value", () => {
  assert.deepEqual([999.4, 999.6, 59990].map(milliseconds), ["999 ms", "1 s", "1 min"]);
  assert.equal(megabytes(1023.9), "1 GB");
  assert.deepEqual([0, 0.0005, 0.25, 41.2, 1240, 90e3, 7200e3].map(milliseconds), [
    "0 ms",
    "500 ns",
    "250 µs",
    "41.2 ms",
    "1.24 s",
    "1.5 min",
    "2 h",
  ]);
  assert.deepEqual([0.5, 812, 2468, 3145728].map(megabytes), [
    "512 kB",
    "812 MB",
    "2.41 GB",
    "3 TB",
  ]);
  assert.equal(quantity(12, "C"), "12 °C");
  assert.equal(quantity(2048, "MB/s"), "2 GB/s");
  assert.equal(quantity(null, "ms"), "");
  assert.deepEqual([0, 12, 192, 7500, 90000].map(duration), [
    "0 s",
    "12 s",
    "3 min 12 s",
    "2 h 5 min",
    "1 d 1 h",
  ]);
});

test("names are short where the rest says nothing", () => {
  assert.equal(shortCommand("/usr/bin/python3.11 -u /srv/jobs/train.py --bs 8"), "train.py --bs 8");
  assert.equal(
    shortCommand("python -m torch.distributed.run x.py"),
    "-m torch.distributed.run x.py",
  );
  assert.equal(shortPath("/x/lib/python3.11/site-packages/torch/nn/m.py"), "torch/nn/m.py");
  assert.equal(shortPath("/srv/a/b/train.py"), "b/train.py");
  assert.equal(counted(5000, 81233), "5,000 of 81,233");
  assert.equal(counted(12, 12), "12");
  assert.equal(counted(12, null), "12 of more");
});

test("the address holds everything, and comes back the same", () => {
  const link = { page: "sql", params: { q: "SELECT 'a&b', 1+1 -- ü", p: "17,18" } };
  assert.deepEqual(parseLink(formatLink(link)), link);
  assert.equal(formatLink(parseLink("")), "#/");
  assert.equal(
    linkTo({ page: "overview", params: { p: "17", r: "1h", sort: "x" } }, "memory"),
    "#/memory?p=17&r=1h",
  );
});

test("time ranges", () => {
  assert.deepEqual(parseRange("10m"), { live: true, span: 600 });
  assert.deepEqual(parseRange("100-160.5"), { live: false, from: 100000, to: 160500 });
  for (const text of ["", undefined, "9", "200-100", "99999d", "1s", "a-b"])
    assert.deepEqual(parseRange(text), { live: true, span: 600 }, String(text));
  for (const text of ["45s", "10m", "1h", "2d", "100-160.500"])
    assert.equal(formatRange(parseRange(text)), text);
  assert.deepEqual(
    ["1m", "10m", "1h", "1d"].map((r) => bucketOf(parseRange(r))),
    [1, 5, 15, 600],
  );
});

test("a saved query is filled for people and for the stream", () => {
  const sql =
    "SELECT time_bucket(INTERVAL {bucket} SECOND, timestamp) FROM t WHERE {time} AND " +
    "{time:u.start}";
  assert.equal(
    forPeople(sql, { live: true, span: 600 }),
    "SELECT time_bucket(INTERVAL 5 SECOND, timestamp) FROM t WHERE timestamp >= now() - " +
      "INTERVAL 600 SECOND AND u.start >= now() - INTERVAL 600 SECOND",
  );
  assert.match(
    forStream(sql, { live: true, span: 600 }),
    /timestamp >= \$from AND u\.start >= \$from$/,
  );
  assert.match(
    forPeople("{time}", { live: false, from: 0, to: 1500 }),
    /^timestamp >= TIMESTAMPTZ '1970-01-01 00:00:00\.000\+00' AND timestamp < .*01\.500/,
  );
  assert.equal(quote("it's"), "'it''s'");
  assert.equal(
    commandLine("SELECT 'a'\n  FROM t", "17"),
    "probing 17 query 'SELECT '\\''a'\\'' FROM t'",
  );
});

test("a stream's events, however the bytes are cut", () => {
  const text =
    ': hello\n\nevent: rows\nid: 1\ndata: {"a":1}\n\n: still here\n\nevent: failed\n' +
    "data: x\n\n";
  for (const size of [1, 7, 1000]) {
    const parser = new EventParser(),
      found = [];
    for (let i = 0; i < text.length; i += size) found.push(...parser.feed(text.slice(i, i + size)));
    assert.deepEqual(found, [
      { event: "rows", data: '{"a":1}' },
      { event: "failed", data: "x" },
    ]);
  }
});

test("what a stream sends replaces the points from there on, and old ones leave", () => {
  const some = (rows: Result["rows"], notices: string[] = []): Result => ({
    ...NO_ROWS,
    columns: [{ name: "t", type: "BIGINT" }],
    rows,
    notices,
  });
  const first = grow(
    NO_ROWS,
    some([
      [100, "a"],
      [200, "b"],
      [300, "c"],
    ]),
    0,
    0,
  );
  const next = grow(
    first,
    some([
      [200, "B"],
      [300, "C"],
      [400, "D"],
    ]),
    200,
    150,
  );
  assert.deepEqual(next.rows, [
    [200, "B"],
    [300, "C"],
    [400, "D"],
  ]);
  assert.deepEqual(grow(first, some([[300, "C"]], ["none since"]), 300, 0), {
    ...some([
      [100, "a"],
      [200, "b"],
      [300, "C"],
    ]),
    notices: [],
  });
  // Why there is nothing is told with the first answer only.
  const none = grow(NO_ROWS, some([], ["torch is not imported"]), 0, 0);
  assert.deepEqual(grow(none, some([]), 300, 0).notices, ["torch is not imported"]);
  assert.deepEqual(grow(none, some([[300, "C"]]), 300, 0).notices, []);
  assert.deepEqual(objects(some([[1]])), [{ t: 1 }]);
  assert.ok(
    isNumeric({ name: "x", type: "BIGINT" }) &&
      isNumeric({ name: "x", type: "DECIMAL(9,2)" }) &&
      !isNumeric({ name: "x", type: "TIMESTAMPTZ" }) &&
      !isNumeric({ name: "x", type: "INTERVAL" }),
  );
});

test("ranks of one launcher are a job; what ended comes last", () => {
  const make = (pid: number, rank: number | null, live = true, parent = 6): Process =>
    fromTold({
      pid,
      rank,
      world_size: rank === null ? null : 2,
      live,
      parent,
      python: "3.11.7",
      command: rank === null ? `python one${pid}.py` : "python ddp.py",
      id: `${pid}-9`,
      ended_ns: live ? 0 : pid * 1e9,
    });
  const jobs = jobsOf([
    make(7, null, false),
    make(5, null),
    make(18, 1),
    make(17, 0),
    make(30, 0, true, 7),
    make(9, null, false),
  ]);
  assert.deepEqual(
    jobs.map((j) => j.processes.map((p) => p.key)),
    [["17", "18"], ["5"], ["30"], ["9-9"], ["7-9"]],
  );
});

test("of processes with one number only the last one's rows are asked for", () => {
  const make = (pid: number, ended: number | null): Process =>
    fromTold({
      pid,
      id: `${pid}-${ended ?? 9}`,
      rank: null,
      world_size: null,
      live: !ended,
      python: "3.11.7",
      command: "train.py",
      ...(ended ? { ended_ns: ended * 1e6 } : {}),
    });
  const all = [make(7, 100), make(7, null), make(8, 50), make(9, 10), make(9, 20)];
  assert.deepEqual([...shadowed(all)], ["7-100", "9-10"]);
  assert.equal(unambiguous(all), "7,8-50,9-20");
  assert.equal(unambiguous([make(7, null), make(8, 50)]), "");
});

test("a command that ran twice is two jobs; those that ended are no crowd", () => {
  const make = (pid: number, rank: number, ended: number): Process =>
    fromTold({
      pid,
      rank,
      world_size: 2,
      live: false,
      python: "3.11.7",
      command: "python ddp.py",
      id: `${pid}-9`,
      ended_ns: ended * 1e9,
    });
  const all = [make(1, 0, 10), make(11, 0, 20), make(2, 1, 10), make(12, 1, 21)];
  assert.deepEqual(
    jobsOf(all).map((j) => j.processes.map((p) => p.pid)),
    [
      [11, 12],
      [1, 2],
    ],
  );
  const many = Array.from({ length: 40 }, (_, i) => make(100 + i, i, 1));
  assert.equal(isCrowd(many), false);
  assert.equal(isCrowd(many.map((p) => ({ ...p, live: true }))), true);
});

test("a link that was cut off leads to the overview's frame, not to nothing", () => {
  assert.equal(parseLink("#/tra%").page, "tra%");
  assert.deepEqual(parseLink("#/sql?q=100%25+%").params, { q: "100% %" });
});

test("what a table is sorted by stands in the link", () => {
  assert.deepEqual(parseOrder("-step time"), { column: "step time", down: true });
  assert.deepEqual(parseOrder("pid"), { column: "pid", down: false });
  assert.equal(parseOrder(""), null);
  assert.equal(formatOrder(parseOrder("-99 %")), "-99 %");
  assert.equal(slug("A step's time"), "a-step-s-time");
});

test("what never changes is seen where it is", () => {
  const [low, high] = heightsOf(0.01, 0.01, false);
  assert.ok(low > 0.009 && high < 0.011);
  assert.deepEqual(heightsOf(50, 100, true), [0, 108]);
  assert.deepEqual(heightsOf(0, 0, true), [0, 1]);
  assert.deepEqual(heightsOf(null, null, false), [0, 1]);
});

test("marks of an axis are round in the unit that they are shown in", () => {
  assert.equal(roundSteps("MB", 99)!.some((v) => v === 0.5), true);
  assert.equal(roundSteps("MB", 0.4)!.some((v) => v === 500 / 1024), true);
  assert.equal(roundSteps("MB", 99)!.some((v) => v === 500 / 1024), false);
  assert.equal(tick(0, 5, "1/s"), "0/s");
});

test("what is usual, and who is not", () => {
  assert.equal(median([3, null, 1, 2]), 2);
  assert.equal(median([]), null);
  assert.equal(deviation(12, 10).toFixed(2), "0.20");
  assert.equal(deviation(null, 10), 0);
  assert.deepEqual(
    slots(
      [
        [0, 1],
        [25, 2],
        [99, 3],
      ],
      0,
      40,
      10,
    ),
    [1, null, 2, null],
  );
});

test("a prompt knows what is complete", () => {
  for (const code of [
    "1 + 1",
    "x = [1,\n2]",
    "print(')')  # (",
    "for i in x:\n    pass\n",
    "a = '''b\nc'''",
  ])
    assert.ok(isComplete(code), code);
  for (const code of [
    "for i in x:",
    "for i in x:\n    pass",
    "f(1,",
    "'''abc",
    "@decorator",
    "x = \\",
  ])
    assert.ok(!isComplete(code), code);
});

test("a module that was never called is one line with its only child", () => {
  const rows = ["M", "M.a.b", "M.a.b.c", "M.d", "N"].map((name) => ({ name }));
  const tree = treeOf(rows, (r) => r.name);
  assert.deepEqual(
    visible(tree, () => true).map((b) => [b.label, b.depth]),
    [
      ["M", 0],
      ["a.b", 1],
      ["c", 2],
      ["d", 1],
      ["N", 0],
    ],
  );
  assert.deepEqual(
    visible(tree, () => false).map((b) => b.name),
    ["M", "N"],
  );
});

test("lines by process; two jobs with the same ranks are told apart", () => {
  const columns = ["t", "rank", "pid", "v"].map((name) => ({ name, type: "BIGINT" }));
  const result = (rows: Result["rows"]) => ({ ...NO_ROWS, columns, rows });
  const one = byProcess(
    result([
      [2, 10, 7, 5],
      [1, 2, 6, 4],
      [1, 10, 7, null],
      [1, null, 9, 1],
    ]),
    "v",
  );
  assert.deepEqual(one.x, [1, 2]);
  assert.deepEqual(
    one.lines.map((l) => [l.name, l.values]),
    [
      ["pid 9", [1, undefined]],
      ["rank 2", [4, undefined]],
      ["rank 10", [undefined, 5]],
    ],
  );
  const two = byProcess(
    result([
      [1, 0, 7, 5],
      [1, 0, 8, 6],
    ]),
    "v",
  );
  assert.deepEqual(
    two.lines.map((l) => l.name),
    ["rank 0 (7)", "rank 0 (8)"],
  );
});

test("of many lines those far from the rest have a colour", () => {
  const lines = Array.from({ length: 64 }, (_, i) => ({
    name: String(i),
    values: [i === 17 ? 90 : 40 + (i % 5) * 0.1],
  }));
  const shown = coloured(lines, ["a", "b", "c"]);
  assert.deepEqual(
    shown.filter((l) => "colour" in l && l.colour).map((l) => l.name),
    ["17"],
  );
  assert.equal(coloured(lines.slice(0, 3), ["a", "b", "c"])[2]!.colour, "c");
});

test("a long answer is kept as text, and counted", () => {
  const bulk = new Bulk();
  for (const line of [
    '{"columns":[{"name":"a","type":"BIGINT"}]}',
    "[1]",
    "[2]",
    "[3]",
    '{"done":{"truncated":true,"left_out":7,"ms":1,"notices":[]}}',
  ])
    bulk.take(line);
  assert.deepEqual([bulk.length, bulk.all, bulk.row(1)], [3, 10, [2]]);
  assert.deepEqual(bulk.some(2), [[1], [3]]);
  // Numbers that JavaScript would round stay what they are; text is not looked into.
  bulk.take(
    '[-9030871936246003991,[18446744073709551615],"a,12345678901234567,\\",1",1.2345678901234567]',
  );
  assert.deepEqual(bulk.row(3), [
    "-9030871936246003991",
    ["18446744073709551615"],
    'a,12345678901234567,",1',
    1.2345678901234567,
  ]);
  assert.throws(
    () => bulk.take('{"error":{"code":"failed","message":"no","at":3,"nearest":""}}'),
    /no/,
  );
  assert.equal(characterAt("SELECT 'ü', x", 12), 11);
  assert.equal(
    sortedSql("SELECT 1; ", 'a"b', true),
    'SELECT * FROM (\nSELECT 1\n) ORDER BY "a""b" DESC NULLS LAST',
  );
});

test("a heat map's limits leave out the outermost hundredth", () => {
  assert.deepEqual(limits([...Array.from({ length: 200 }, (_, i) => i), 1e6, null]), [0, 198]);
  assert.deepEqual(limits([]), [0, 1]);
});

test("ranks of several machines are one set", () => {
  assert.equal(union(["0-1", "2-3,7"]), "0-3,7");
  assert.equal(union(["4,4-9", "", "0", "2"]), "0,2,4-9");
  assert.equal(union(["1,0-3,x"]), "0-3");
  assert.equal(union([]), "");
  assert.deepEqual([firstOf("3-5,9"), firstOf("")], [3, null]);
});

test("who answered, and who did not", () => {
  const whole = { asked: 3, answered: 3, bytes: 9, missing: [] };
  assert.equal(coverageText(whole), "3 of 3 nodes answered");
  assert.equal(isPartial(whole), false);
  const some = {
    ...whole,
    answered: 2,
    missing: [{ node: "node-c", address: "10.0.0.3:7707", reason: "does not answer" }],
    ranks_missing: "6-9",
  };
  assert.equal(
    coverageText(some),
    "2 of 3 nodes answered; missing: node-c (does not answer); " +
      "ranks 6-9 run at no node that is known",
  );
  assert.equal(isPartial(some), true);
});

test("how far ahead a clock is", () => {
  const clock = (clock_offset_us: number | null, clock_error_us: number | null, self = false) =>
    clockOf({ self, clock_offset_us, clock_error_us });
  assert.equal(clock(12.4, 85.2), "+12 ±85 µs");
  assert.equal(clock(-250000, 120), "-250.0 ±0.1 ms");
  assert.equal(clock(5, 2000), "+0.0 ±2.0 ms");
  assert.deepEqual([clock(null, null), clock(1, 1, true)], ["", ""]);
});

test("stacked lines have a gap where nothing was measured, and not a zero", () => {
  const line = (name: string, values: (number | null)[], stacked = true) => ({
    name,
    values,
    stacked,
  });
  const found = stack([
    line("a", [null, 1, 2, null]),
    line("beside", [5, 5, 5, 5], false),
    line("b", [null, 3, null, 4]),
  ]);
  assert.deepEqual(
    found.map((l) => l.values),
    [
      [null, 1, 2, null],
      [5, 5, 5, 5],
      [null, 4, 2, 4],
    ],
  );
});

test("a value that is told when it changes holds until the next one", () => {
  const values = [undefined, 7, undefined, 0],
    found = held({ x: [1, 2, 3, 4], lines: [{ name: "a", values }] });
  assert.deepEqual(found.lines[0]!.values, [undefined, 7, 7, 0]);
});

test("no line is drawn over a time without rows", () => {
  const values = [1, undefined, 3, 4, 5],
    found = withGaps([0, 5, 10, 100, 105], [{ name: "a", values }]);
  assert.deepEqual(found.x, [0, 5, 10, 20, 100, 105]);
  assert.deepEqual(found.lines[0]!.values, [1, undefined, 3, null, 4, 5]);
  const whole = { x: [0, 5, 10, 20, 25], lines: [] };
  assert.deepEqual(withGaps(whole.x, whole.lines), whole);
  assert.deepEqual(withGaps([7], []), { x: [7], lines: [] });
});

test("lines whose points lie at other times do not interrupt each other", () => {
  const x = Array.from({ length: 12 }, (_, i) => 5 * i);
  const every = (n: number) => x.map((_, i) => (i % n ? undefined : i));
  const lines = [
    { name: "each", values: every(1) },
    { name: "each third", values: every(3) },
  ];
  assert.deepEqual(withGaps(x, lines), { x, lines });
  // One that ended is not what it was, and what is no number is a gap for itself.
  const ended = x.map((_, i) => (i < 4 ? i : undefined)),
    nan = x.map((_, i) => (i === 6 ? null : i));
  const found = withGaps(x, [
    { name: "ended", values: ended },
    { name: "nan", values: nan },
  ]);
  assert.deepEqual(found.x, x);
  assert.deepEqual(found.lines[0]!.values.slice(0, 6), [0, 1, 2, 3, null, undefined]);
  assert.deepEqual(found.lines[1]!.values, nan);
  assert.deepEqual(lonely([null, 1, undefined, null, 2, 3, null, undefined, 4]), [1, 8]);
});

test("an answer as lines: each line has its own points, and what is not drawn is said", () => {
  const bulk = new Bulk();
  bulk.take(
    '{"columns":[{"name":"timestamp","type":"TIMESTAMP WITH TIME ZONE"},' +
      '{"name":"rank","type":"INTEGER"},{"name":"loss","type":"DOUBLE"}]}',
  );
  for (let i = 0; i < 4; i++)
    bulk.take(`["2026-11-19T07:00:0${i}.5Z",${i % 2},${i === 3 ? '"nan"' : i / 2}]`);
  assert.deepEqual(drawn(bulk)!.lines, [
    { name: "rank 0", values: [0, undefined, 1, undefined] },
    { name: "rank 1", values: [undefined, 0.5, undefined, null] },
  ]);
  assert.deepEqual(drawn(bulk)!.left, []);
  const many = new Bulk();
  many.take(
    '{"columns":[{"name":"i","type":"BIGINT"},{"name":"n","type":"BIGINT"},' +
      '{"name":"name","type":"VARCHAR"}]}',
  );
  for (let i = 0; i < 40000; i++) many.take(`[${i},${2 * i},"row ${i}"]`);
  assert.equal(drawn(many)!.lines.length, 60);
  assert.deepEqual(drawn(many)!.left, ["20,000 of 40,000 rows", "60 of 20,000 lines"]);
  assert.equal(drawn(new Bulk()), null);
});
