// Runs the unit tests of the page's logic. usage: node run.mjs OUT [NAME...]
// Each test file is bundled, so that it sees the modules as the page does.
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const [out, ...names] = process.argv.slice(2);
const files = readdirSync(here).filter(
  (name) =>
    /\.test\.tsx?$/.test(name) &&
    (!names.length || names.some((wanted) => name.startsWith(wanted))),
);

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
buildSync({
  absWorkingDir: here,
  entryPoints: files,
  outdir: out,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node18",
  sourcemap: "inline",
  jsx: "automatic",
  jsxImportSource: "preact",
  loader: { ".css": "empty" },
  logLevel: "warning",
});
const built = readdirSync(out)
  .filter((name) => name.endsWith(".mjs"))
  .map((name) => join(out, name));
process.exit(
  spawnSync(process.execPath, ["--enable-source-maps", "--test", ...built], { stdio: "inherit" })
    .status ?? 1,
);
