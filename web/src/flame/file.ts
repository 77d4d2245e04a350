// The self-contained file that `probing flamegraph -f html` writes: data, style and this script.
import type { FlameData } from "./model.ts";
import { FlameView } from "./view.ts";
import "./flame.css";
import "./file.css";

const data = JSON.parse(document.getElementById("data")!.textContent!) as FlameData;
const page = document.documentElement.classList;
const title = document.createElement("h1"), info = document.createElement("span");
const header = document.createElement("header"), main = document.createElement("main");
const darker = document.createElement("button");

page.toggle("dark", matchMedia("(prefers-color-scheme: dark)").matches);
document.title = title.textContent = data.title;
info.textContent = data.info;
darker.textContent = "dark / light";
header.append(title, info);
document.body.append(header, main);

const view = new FlameView(main, data, { isDark: () => page.contains("dark"), keysFrom: window });
const turnDark = () => { page.toggle("dark"); view.redraw(); };
darker.addEventListener("click", turnDark);
view.tools.append(darker);
header.append(view.tools);
addEventListener("keydown", (event) => {
  const target = event.target as HTMLElement;
  if (event.key === "d" && target.tagName !== "INPUT" && !event.ctrlKey && !event.metaKey)
    turnDark();
});
