"use strict";
// The view of a recording: one canvas, drawn anew at every change. Only frames that are at least
// half a pixel wide are visited, so that the size of the recording does not matter.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const ROW = 18, THIN = 0.5;
  const view = $("view"), canvas = $("canvas"), paint = canvas.getContext("2d");
  const state = { filter: "all", thread: -1, byThread: false, flame: false, find: "" };
  let tree, root = 0, chosen = 0, rows = [], match = null;

  const FILTERS = {
    all: () => true,
    cpu: (f) => f & 1,
    gil: (f) => f & 2,
    wait: (f) => f & 4,
    off: (f) => !(f & 1),
  };

  // Arrays by node: parent, frame (or -1 - thread), total, own, children from first[n] on.
  function build() {
    const wanted = FILTERS[state.filter], L = data.leaves;
    let parent = data.parent, frame = data.frame, own = new Float64Array(parent.length);
    const maps = new Map();
    if (state.byThread) { parent = [0]; frame = [-1]; own = [0]; }
    const grow = (p, f) => { parent.push(p); frame.push(f); own.push(0); return parent.length - 1; };
    const copy = (thread, node) => { // the same stack below a node of its thread
      let m = maps.get(thread);
      if (!m) maps.set(thread, m = new Map([[0, grow(0, -2 - thread)]]));
      const path = [];
      while (!m.has(node)) { path.push(node); node = data.parent[node]; }
      let at = m.get(node);
      while (path.length) { const n = path.pop(); m.set(n, at = grow(at, data.frame[n])); }
      return at;
    };
    for (let i = 0; i < L.length; i += 4) {
      if (!wanted(L[i + 2]) || (state.thread >= 0 && L[i + 1] !== state.thread)) continue;
      own[state.byThread ? copy(L[i + 1], L[i]) : L[i]] += L[i + 3];
    }
    const n = parent.length, total = Float64Array.from(own), depth = new Uint32Array(n);
    for (let i = n - 1; i > 0; i--) total[parent[i]] += total[i];
    const count = new Uint32Array(n + 1);
    for (let i = 1; i < n; i++) if (total[i]) count[parent[i] + 1]++;
    for (let i = 1; i <= n; i++) count[i] += count[i - 1];
    const first = count, at = first.slice(), child = new Uint32Array(first[n]);
    for (let i = 1; i < n; i++) {
      depth[i] = depth[parent[i]] + 1;
      if (total[i]) child[at[parent[i]]++] = i;
    }
    for (let i = 0; i < n; i++)
      if (first[i + 1] - first[i] > 1)
        child.subarray(first[i], first[i + 1]).sort((a, b) => total[b] - total[a] || a - b);
    tree = { parent, frame, own, total, depth, first, child, n };
    root = chosen = 0;
    search();
  }

  function label(node) {
    const f = tree.frame[node];
    if (node === 0) return "all";
    if (f < 0) return data.threads[-2 - f];
    const [name, file, line] = data.frames[f];
    return file ? name + "  " + short(file) + (line ? ":" + line : "") : name;
  }
  function short(file) {
    const m = /(?:site-packages|dist-packages|\/lib\/python3[^/]*)\/(.+)$/.exec(file);
    return m ? m[1] : file.slice(file.lastIndexOf("/") + 1) || file;
  }
  function colour(node, dark) {
    const f = tree.frame[node];
    if (f < 0) return dark ? "#3b4048" : "#dfe3e8";
    const [name, , , native] = data.frames[f];
    let h = 5381;
    for (let i = 0; i < name.length; i++) h = (h * 33 + name.charCodeAt(i)) >>> 0;
    const hue = (native ? 200 : 18) + h % 32, light = (dark ? 36 : 66) + (h >>> 8) % 10;
    return `hsl(${hue} ${native ? 45 : dark ? 48 : 80}% ${light}%)`;
  }

  // Which nodes match, and the share of time below any of them, none counted twice.
  function search() {
    match = null;
    $("share").textContent = "";
    if (!state.find) return;
    let hit;
    try { const re = new RegExp(state.find, "i"); hit = (s) => re.test(s); }
    catch { const low = state.find.toLowerCase(); hit = (s) => s.toLowerCase().includes(low); }
    const byFrame = data.frames.map(([name, file]) => hit(name) || hit(file));
    match = new Uint8Array(tree.n);
    let sum = 0;
    for (let i = 1; i < tree.n; i++) {
      const f = tree.frame[i], own = f < 0 ? hit(data.threads[-2 - f] || "") : byFrame[f];
      const above = match[tree.parent[i]] & 2;
      match[i] = (own ? 1 : 0) | (own || above ? 2 : 0);
      if (own && !above) sum += tree.total[i];
    }
    $("share").textContent = percent(sum) + " match";
  }
  const percent = (v) => (tree.total[0] ? 100 * v / tree.total[0] : 0).toFixed(1) + " %";
  const time = (us) => us >= 1e6 ? (us / 1e6).toFixed(2) + " s" : (us / 1e3).toFixed(1) + " ms";

  function draw() {
    const width = view.clientWidth, height = view.clientHeight, ratio = devicePixelRatio || 1;
    const dark = document.documentElement.classList.contains("dark");
    const style = getComputedStyle(document.documentElement);
    const ink = dark ? "#f2f3f5" : "#15171a", hitInk = style.getPropertyValue("--hit");
    const place = layout(width);
    $("room").style.height = Math.max(0, place.deepest * ROW + 4 - height) + "px";
    const top = view.scrollTop, all = Math.max(place.deepest * ROW + 4, height);
    if (canvas.width !== width * ratio || canvas.height !== height * ratio) {
      canvas.width = width * ratio; canvas.height = height * ratio;
      canvas.style.width = width + "px"; canvas.style.height = height + "px";
    }
    paint.setTransform(ratio, 0, 0, ratio, 0, 0);
    paint.clearRect(0, 0, width, height);
    paint.font = "11.5px system-ui, sans-serif";
    paint.textBaseline = "middle";
    const letter = paint.measureText("abcdefghij").width / 10;
    for (let d = 0; d < rows.length; d++) {
      const y = (state.flame ? all - (d + 1) * ROW - 2 : d * ROW + 2) - top;
      if (y < -ROW || y > height) continue;
      for (const [node, x, w] of rows[d]) {
        paint.globalAlpha = d < place.above ? 0.55 : match && !(match[node] & 2) ? 0.45 : 1;
        paint.fillStyle = match && match[node] & 1 ? hitInk : colour(node, dark);
        paint.fillRect(x, y, Math.max(w - (w > 2 ? 1 : 0), THIN), ROW - 1);
        if (node === chosen && w > 2) {
          paint.strokeStyle = ink; paint.lineWidth = 1.5;
          paint.strokeRect(x + 0.75, y + 0.75, w - 2.5, ROW - 2.5);
        }
        if (w > 24) {
          const text = label(node), fits = Math.floor((w - 6) / letter);
          paint.fillStyle = ink;
          paint.fillText(text.length > fits ? text.slice(0, Math.max(fits - 1, 1)) + "…" : text,
            x + 3, y + ROW / 2);
        }
      }
    }
    paint.globalAlpha = 1;
  }

  // Fills rows with [node, x, width]: the callers of the root, then all that can be seen below it.
  function layout(width) {
    const { first, child, total } = tree, path = [];
    for (let n = tree.parent[root], m = root; m !== 0; m = n, n = tree.parent[n]) path.unshift(n);
    rows = path.map((n) => [[n, 0, width]]);
    const above = path.length, scale = total[root] ? width / total[root] : 0;
    let level = [[root, 0, width]];
    while (level.length) {
      rows.push(level);
      const next = [];
      for (const [node, from] of level) {
        let x = from;
        for (let i = first[node]; i < first[node + 1]; i++) {
          const w = total[child[i]] * scale;
          if (w < THIN) break; // sorted: the rest is thinner
          next.push([child[i], x, w]);
          x += w;
        }
      }
      level = next;
    }
    return { above, deepest: rows.length };
  }

  function about(node) {
    const box = $("about"), f = tree.frame[node];
    box.textContent = "";
    const bold = document.createElement("b"), rest = document.createElement("span");
    bold.textContent = f >= 0 && node ? data.frames[f][0] : label(node);
    rest.textContent = "  " + (f >= 0 && node && data.frames[f][1]
      ? data.frames[f][1] + (data.frames[f][2] ? ":" + data.frames[f][2] : "") + "   " : "") +
      time(tree.total[node]) + " (" + percent(tree.total[node]) + "), own " +
      time(tree.own[node]) + " (" + percent(tree.own[node]) + ")";
    box.append(bold, rest);
  }
  function under(event) {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left;
    const all = Math.max(rows.length * ROW + 4, view.clientHeight);
    const y = event.clientY - box.top + view.scrollTop;
    const d = Math.floor((state.flame ? all - y - 2 : y - 2) / ROW);
    const found = (rows[d] || []).find(([, from, w]) => x >= from && x < from + w);
    return found ? found[0] : -1;
  }
  function choose(node) { chosen = node; about(node); draw(); }
  function zoom(node) { root = node; view.scrollTop = state.flame ? 1e9 : 0; choose(node); }
  function step(key) {
    const { parent, first, child } = tree, p = parent[chosen];
    let down = key === "ArrowDown", up = key === "ArrowUp";
    if (state.flame) [down, up] = [up, down];
    if (up && chosen) return choose(p);
    if (down && first[chosen] < first[chosen + 1]) return choose(child[first[chosen]]);
    if (!chosen || (key !== "ArrowLeft" && key !== "ArrowRight")) return;
    const all = Array.from(child.subarray(first[p], first[p + 1])), i = all.indexOf(chosen);
    const next = all[i + (key === "ArrowRight" ? 1 : -1)];
    if (next !== undefined) choose(next);
  }
  function toggle(id, change) {
    change();
    for (const [button, on] of [["threads", state.byThread], ["flame", state.flame]])
      $(button).setAttribute("aria-pressed", on);
    draw();
    about(chosen);
  }
  const threads = () => toggle("threads", () => { state.byThread = !state.byThread; build(); });
  const flame = () => toggle("flame", () => { state.flame = !state.flame; });
  const dark = () => { document.documentElement.classList.toggle("dark"); draw(); };
  function find(text) { state.find = $("find").value = text; search(); draw(); }

  const KEYS = {
    "/": () => $("find").focus(),
    Escape: () => (state.find ? find("") : zoom(0)),
    Enter: () => zoom(chosen),
    Backspace: () => zoom(tree.parent[root]),
    Home: () => zoom(0),
    i: flame, t: threads, d: dark,
    "?": () => { $("keys").hidden = !$("keys").hidden; },
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target === $("find")) {
      if (event.key === "Escape") { find(""); view.focus(); }
      if (event.key === "Enter") view.focus();
      return;
    }
    if (event.target.tagName === "SELECT" ||
        (event.target.tagName === "BUTTON" && event.key === "Enter")) return;
    if (event.key.startsWith("Arrow")) step(event.key);
    else if (KEYS[event.key]) KEYS[event.key]();
    else return;
    event.preventDefault();
  });
  canvas.addEventListener("mousemove", (event) => {
    const node = under(event);
    canvas.style.cursor = node > 0 ? "pointer" : "default";
    about(node < 0 ? chosen : node);
  });
  canvas.addEventListener("click", (event) => { const n = under(event); if (n >= 0) zoom(n); });
  view.addEventListener("scroll", draw);
  addEventListener("resize", draw);
  $("find").addEventListener("input", () => find($("find").value));
  $("filter").addEventListener("change", () => {
    state.filter = $("filter").value; build(); draw(); about(0);
  });
  $("thread").addEventListener("change", () => {
    state.thread = +$("thread").value; build(); draw(); about(0);
  });
  $("threads").addEventListener("click", threads);
  $("flame").addEventListener("click", flame);
  $("dark").addEventListener("click", dark);
  $("help").addEventListener("click", KEYS["?"]);

  document.title = data.title;
  $("title").textContent = data.title;
  $("info").textContent = data.info;
  data.threads.forEach((name, i) => $("thread").append(new Option(name, i)));
  if (matchMedia("(prefers-color-scheme: dark)").matches)
    document.documentElement.classList.add("dark");
  build();
  draw();
  about(0);
})();
