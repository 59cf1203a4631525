// How the front end is bundled: settings shared by the widget and the JupyterLab extension.
import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { build } from "esbuild";

const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));

/** `import text from "inline:./worker.ts"` gives the bundled module as a string: a widget is one file, its worker too. */
const inlineModules = {
  name: "inline-modules",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^inline:/ }, ({ path, resolveDir }) => ({
      path: resolve(resolveDir, path.slice("inline:".length)),
      namespace: "inline",
    }));
    onLoad({ filter: /.*/, namespace: "inline" }, async ({ path }) => {
      const made = await build({ ...plain, entryPoints: [path], format: "iife", write: false });
      return { contents: made.outputFiles[0].text, loader: "text", watchDirs: [dirname(path)] };
    });
  },
};

const plain = { bundle: true, minify: true, target: "es2022", legalComments: "none", logLevel: "warning" };

export const settings = {
  ...plain,
  format: "esm",
  jsx: "automatic",
  jsxImportSource: "preact",
  loader: { ".css": "text" },
  define: { JAXMAGIC_VERSION: JSON.stringify(version) },
  plugins: [inlineModules],
};
