import assert from "node:assert/strict";
import { test } from "node:test";
import {
  activity, buildTree, changeOf, childrenOf, type FlameData, labelOf, search, type Selection,
} from "../src/flame/model.ts";
import { differenceColour, heightOf, joinThin, layout, nodeAt, ROW } from "../src/flame/paint.ts";
import { windowBetween } from "../src/flame/strip.ts";

// main ─┬─ work ─── hot      thread 0: 60 on the CPU in hot, 30 asleep in wait
//       └─ wait              thread 1: 10 waiting for the GIL in work
const data: FlameData = {
  title: "t", info: "i", threads: ["MainThread (1)", "Worker (2)"],
  frames: [["main", "/app/train.py", 3, 0], ["hot", "", 0, 1], ["wait", "/app/train.py", 9, 0],
    ["work", "/usr/lib/python3.11/site-packages/lib/m.py", 7, 0]],
  parent: [0, 0, 1, 2, 1], frame: [-1, 0, 3, 1, 2],
  leaves: [3, 0, 1 | 2, 60, 4, 0, 0, 30, 2, 1, 4, 10],
};
const all: Selection = { filter: "all", thread: -1, byThread: false };

test("weights add up from the leaves to the root", () => {
  const tree = buildTree(data, all);
  assert.deepEqual([...tree.total], [100, 100, 70, 60, 30]);
  assert.deepEqual([...tree.own], [0, 0, 10, 60, 30]);
  assert.deepEqual([...childrenOf(tree, 1)], [2, 4]);
});

test("filters choose by what the thread did", () => {
  const total = (filter: Selection["filter"]) => buildTree(data, { ...all, filter }).total[0];
  assert.deepEqual([total("cpu"), total("off"), total("gil"), total("wait")], [60, 40, 60, 10]);
  assert.equal(buildTree(data, { ...all, thread: 1 }).total[0], 10);
});

test("by thread: the same stacks below a node for each thread", () => {
  const tree = buildTree(data, { ...all, byThread: true });
  const threads = [...childrenOf(tree, 0)];
  assert.deepEqual(threads.map((n) => [labelOf(data, tree, n), tree.total[n]]),
    [["MainThread (1)", 90], ["Worker (2)", 10]]);
  assert.equal(tree.own.reduce((a, b) => a + b), 100);
});

test("a search counts no time twice, and text that is no expression is taken as text", () => {
  const tree = buildTree(data, all);
  assert.equal(search(data, tree, "")?.weight, undefined);
  assert.equal(search(data, tree, "^(work|hot)$")!.weight, 70);
  assert.equal(search(data, tree, "train.py")!.weight, 100);
  assert.equal(search(data, tree, "hot(")!.weight, 0);
});

test("labels are short where paths are long", () => {
  const tree = buildTree(data, all);
  assert.deepEqual([0, 1, 2, 3].map((n) => labelOf(data, tree, n)),
    ["all", "main  train.py:3", "work  lib/m.py:7", "hot"]);
});

test("joinThin: neighbours that nobody could tell apart are one box, hits and gaps stay", () => {
  const tree = buildTree(data, all), scene = { tree, matches: null, chosen: 0 };
  const thin = (n: number): [number, number, number] => [n, n, 1];
  const row = [1, 2, 3, 4, 5].map(thin);
  assert.deepEqual(joinThin(scene, row), [[1, 1, 5]]);
  assert.deepEqual(joinThin({ ...scene, chosen: 3 }, row), [[1, 1, 2], [3, 3, 1], [4, 4, 2]]);
  const bits = new Uint8Array([0, 0, 0, 1, 0, 0]);
  assert.deepEqual(joinThin({ ...scene, matches: { bits, weight: 1 } }, row),
    [[1, 1, 2], [3, 3, 1], [4, 4, 2]]);
  assert.deepEqual(joinThin(scene, [[1, 0, 9], [2, 9, 1], [3, 20, 1]]),
    [[1, 0, 9], [2, 9, 1], [3, 20, 1]]);
  const many = joinThin(scene, Array.from({ length: 99 }, (_, n) => thin(n)));
  assert.ok(many.every((box) => box[2] <= 24));
});

test("layout: widths are shares, callers stand above the root, thin frames are left out", () => {
  const tree = buildTree(data, all), whole = layout(tree, 0, 1000);
  assert.deepEqual(whole.rows[2], [[2, 0, 700], [4, 700, 300]]);
  const zoomed = layout(tree, 2, 1000);
  assert.equal(zoomed.above, 2);
  assert.deepEqual(zoomed.rows.map((r) => r[0]![0]), [0, 1, 2, 3]);
  assert.equal(layout(tree, 0, 1).rows.at(-1)!.length, 1);
  assert.equal(heightOf(whole), 4 * ROW + 4);
  assert.equal(nodeAt(whole, 800, 2 * ROW + 5, false, 400), 4);
  assert.equal(nodeAt(whole, 800, 400 - 2 * ROW - 5, true, 400), 4);
  assert.equal(nodeAt(whole, 800, 300, false, 400), -1);
});

// The first leaf lasts from slot 2 to 5, the second lies in slot 0, the third in slot 9.
const timed: FlameData = { ...data, slots: { n: 10, ms: 100, start: 0 }, slot: [2, 0, 9],
  span: [3, 0, 0] };

test("a window counts the part of a leaf that lies in it", () => {
  const total = (window: Selection["window"]) => buildTree(timed, { ...all, window }).total[0];
  assert.deepEqual([total(null), total([0, 1]), total([2, 4]), total([4, 10]), total([6, 9])],
    [100, 30, 30, 40, 0]);
  const { ran, not } = activity(timed, -1);
  assert.deepEqual([...ran], [0, 0, 15, 15, 15, 15, 0, 0, 0, 0]);
  assert.deepEqual([not[0], not[9]], [30, 10]);
  assert.equal(activity(timed, 1).ran[2], 0);
});

test("places on the strip become parts of the time", () => {
  assert.deepEqual(windowBetween(0, 49, 100, 10), [0, 5]);
  assert.deepEqual(windowBetween(81, 20, 100, 10), [2, 9]);
  assert.deepEqual(windowBetween(55, 55, 100, 10), [5, 6]);
  assert.deepEqual(windowBetween(-5, 400, 100, 10), null);
});

test("a comparison: red for more, blue for less, pale for the same and for chance", () => {
  const compared = { ...data, before: [3, 0, 3, 20, 4, 0, 0, 60, 2, 1, 4, 10] };
  const tree = buildTree(compared, all), change = (n: number) => changeOf(tree, n, false);
  assert.deepEqual([...tree.other!], [90, 90, 30, 20, 60]);
  assert.ok(change(3) > 0.6 && change(4) < -0.4 && Math.abs(change(1)) < 0.2);
  assert.match(differenceColour(change(3), false), /^hsl\(8 /);
  assert.match(differenceColour(change(4), true), /^hsl\(212 /);
  const swapped = buildTree(compared, { ...all, showBefore: true });
  assert.deepEqual([...swapped.total], [90, 90, 30, 20, 60]);
  assert.equal(changeOf(swapped, 3, true), change(3));
  const split = buildTree(compared, { ...all, byThread: true });
  assert.equal(split.other![0], 90);
  const slight = { ...data, before: [3, 0, 3, 60, 4, 0, 0, 30, 2, 1, 4, 9.9] };
  assert.ok(Math.abs(changeOf(buildTree(slight, all), 2, false)) < 0.01);
});
