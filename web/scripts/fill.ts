// npm run fill -- model.json page.html: what Go does, for trying the page out.
import { readFileSync, writeFileSync } from "node:fs";

const template = new URL("../../internal/report/html/page.html", import.meta.url);

/** The page with a model in it; escaped as Go's encoding/json does. */
export function fill(json: string): string {
  const safe = json.replace(/[<>&\u2028\u2029]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
  return readFileSync(template, "utf8").replace("{{data}}", () => safe);
}

const [model, page] = process.argv.slice(2).filter((a) => /\.(json|html)$/.test(a));
if (model && page) writeFileSync(page, fill(readFileSync(model, "utf8")));
