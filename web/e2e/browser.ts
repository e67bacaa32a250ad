// The browser for tests and pictures: Debian's Chromium, or what CHROMIUM names.
import { existsSync } from "node:fs";
import { chromium, type Browser } from "playwright-core";

/** Starts it; the caller closes it. */
export async function launch(): Promise<Browser> {
  const path = process.env["CHROMIUM"] ?? ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((p) => existsSync(p));
  if (path === undefined) throw new Error("no Chromium found; install it, or set CHROMIUM to its path");
  return chromium.launch({
    executablePath: path,
    headless: true,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
}
