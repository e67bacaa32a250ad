// Builds the page: one HTML file with the style and the script inside, and a
// place for the data. Go embeds it (internal/report/html).
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig, type Plugin } from "vite";
import { digest } from "./scripts/digest";
import { notices } from "./scripts/notices";

const here = dirname(fileURLToPath(import.meta.url));

export default defineConfig({
  root: here,
  publicDir: false,
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  build: {
    target: "es2020",
    outDir: join(here, "../internal/report/html"),
    emptyOutDir: false,
    cssCodeSplit: false,
    modulePreload: false,
    rollupOptions: {
      input: join(here, "src/main.tsx"),
      output: { format: "iife", entryFileNames: "page.js", assetFileNames: "page.[ext]" },
    },
  },
  plugins: [singlePage()],
});

/** Puts what the build made into index.html and writes only that. */
function singlePage(): Plugin {
  return {
    name: "single-page",
    enforce: "post",
    generateBundle(_, bundle) {
      let script = "";
      let style = "";
      let modules: string[] = [];
      for (const [name, part] of Object.entries(bundle)) {
        if (part.type === "chunk") [script, modules] = [part.code.trim(), part.moduleIds];
        else if (name.endsWith(".css")) style = String(part.source).trim();
        delete bundle[name];
      }
      // Inside a script element only "</script" and "<!--" have a meaning.
      script = script.replace(/<\/script/gi, "<\\/script").replace(/<!--/g, "<\\!--");
      const parts: Record<string, string> = {
        policy: policy(script),
        sources: digest(here),
        notices: notices(here, modules),
        style,
        script,
        data: "{{data}}",
      };
      const source = readFileSync(join(here, "index.html"), "utf8").replace(/\{\{(\w+)\}\}/g, (whole, name: string) => parts[name] ?? whole);
      this.emitFile({ type: "asset", fileName: "page.html", source });
    },
  };
}

/** Nothing may be loaded or sent, and no script but ours may run. */
function policy(script: string): string {
  const hash = createHash("sha256").update(script).digest("base64");
  return [`default-src 'none'`, `script-src 'sha256-${hash}'`, `style-src 'unsafe-inline'`, `img-src data: blob:`, `base-uri 'none'`, `form-action 'none'`].join("; ");
}
