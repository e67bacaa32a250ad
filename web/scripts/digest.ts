// The digest of everything that the page is built from. A Go test computes it
// again, so that a page that was not rebuilt is found without Node.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const single = ["index.html", "package-lock.json", "scripts/digest.ts", "scripts/notices.ts", "tsconfig.json", "vite.config.ts"];

/** Paths of the sources, sorted, with forward slashes. */
export function sources(root: string): string[] {
  const walk = (dir: string): string[] =>
    readdirSync(join(root, dir), { withFileTypes: true }).flatMap((e) => (e.isDirectory() ? walk(`${dir}/${e.name}`) : [`${dir}/${e.name}`]));
  return [...single, ...walk("src")].sort();
}

/** "sha256:..." over one line a source: its path, a space, the hash of its text. */
export function digest(root: string): string {
  const hash = (data: string | Buffer): string => createHash("sha256").update(data).digest("hex");
  return `sha256:${hash(sources(root).map((path) => `${path} ${hash(readFileSync(join(root, path)))}\n`).join(""))}`;
}
