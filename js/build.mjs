// Builds jaxmagic/static/widget.js, the one file of the anywidget.
import { statSync } from "node:fs";
import { build } from "esbuild";
import { settings } from "./bundle.mjs";

const outfile = "jaxmagic/static/widget.js";
await build({ ...settings, entryPoints: ["js/src/widget.tsx"], outfile });
console.log(`${outfile} ${Math.round(statSync(outfile).size / 1024)} KiB`);
