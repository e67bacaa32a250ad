// The licences of what is bundled: they ask to be kept with every copy, and a
// report is one.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Names, versions and copyrights of the packages that own these modules, then each licence once. */
export function notices(root: string, modules: string[]): string {
  const names = new Set(modules.flatMap((id) => /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(id)?.[1] ?? []));
  const lines: string[] = [];
  const texts = new Map<string, string[]>();
  for (const name of [...names].sort()) {
    const folder = join(root, "node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as { version: string; license: string };
    const file = ["LICENSE", "LICENSE.md", "LICENSE.txt"].map((f) => join(folder, f)).find(existsSync);
    if (file === undefined) throw new Error(`${name} ${version} has no licence file: what may be done with it is not known`);
    const all = readFileSync(file, "utf8").trim().split("\n");
    const isCopyright = (line: string): boolean => /^\s*Copyright/.test(line);
    lines.push(`${name} ${version} (${license}) ${all.filter(isCopyright).join(" ").trim()}`);
    const rest = all.filter((l) => !isCopyright(l)).join("\n").trim();
    texts.set(rest, [...(texts.get(rest) ?? []), name]);
  }
  const out = ["This page contains:", ...lines, ...[...texts].map(([text, owners]) => `\nLicence of ${owners.join(", ")}:\n${text}`)].join("\n");
  // Two hyphens may not stand in an HTML comment.
  return out.replace(/--+/g, "-");
}
