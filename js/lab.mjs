// Builds the JupyterLab extension: the renderer that shows a saved report without a kernel.
import { execFileSync } from "node:child_process";
import { copyFileSync } from "node:fs";
import { createRequire } from "node:module";
import { build } from "esbuild";

const require = createRequire(import.meta.url);

// JupyterLab's builder knows no TypeScript, so esbuild goes first and leaves it one file.
await build({
  entryPoints: ["js/src/lab/index.ts"],
  outfile: "build/lab/index.js",
  bundle: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  loader: { ".css": "text" },
  external: ["@lumino/*", "@jupyterlab/*"],
  minify: true,
  logLevel: "warning",
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
