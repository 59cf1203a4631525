// Builds jaxmagic/labextension: the renderer that shows a saved report in JupyterLab without a kernel.
import { execFileSync } from "node:child_process";
import { copyFileSync } from "node:fs";
import { createRequire } from "node:module";
import { build } from "esbuild";
import { settings } from "./bundle.mjs";

const require = createRequire(import.meta.url);

// JupyterLab's builder knows no TypeScript, so esbuild goes first and leaves it one file.
await build({
  ...settings,
  entryPoints: ["js/src/lab/index.ts"],
  outfile: "build/lab/index.js",
  external: ["@lumino/*", "@jupyterlab/*"],
});

execFileSync(
  process.execPath,
  [
    require.resolve("@jupyter/builder/lib/build-labextension.js"),
    "--core-package-file",
    require.resolve("@jupyterlab/core-meta/core.package.json"),
    ".",
  ],
  { stdio: ["ignore", "ignore", "inherit"] },
);
copyFileSync("js/install.json", "jaxmagic/labextension/install.json");
