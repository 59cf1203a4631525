// A page with the panel and no kernel, from a report's JSON: node js/dev.mjs tests/records/mlp.json [folder]
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { settings } from "./bundle.mjs";

const [, , record, folder = "build/dev"] = process.argv;
if (!record) throw new Error("usage: node js/dev.mjs REPORT.json [FOLDER]");

const text = readFileSync(record, "utf8");
const { versions } = JSON.parse(text);
const protocol = Number(readFileSync("js/src/protocol.ts", "utf8").match(/PROTOCOL = (\d+)/)[1]);
const payload = { protocol, version: versions.jaxmagic, report: gzipSync(text).toString("base64") };

const bundle = await build({ ...settings, entryPoints: ["js/src/dev.ts"], write: false });
const script = bundle.outputFiles[0].text.replaceAll("</script", "<\\/script");
mkdirSync(folder, { recursive: true });
const page = join(folder, `${basename(record, ".json")}.html`);
writeFileSync(
  page,
  `<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>${basename(record)}</title>
<style>body { margin: 12px }</style><div id="panel"></div>
<script type="application/json" id="payload">${JSON.stringify(payload)}</script>
<script type="module">${script}</script>
`,
);
console.log(page);
