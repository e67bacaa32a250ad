// Opens a report from disk in a fresh tab and keeps watch over it.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { fill } from "../scripts/fill";
import type { Model } from "../src/model";

export interface Opened {
  page: Page;
  /** Console errors, page errors and requests beyond the page itself. */
  troubles: string[];
}

const folder = mkdtempSync(join(tmpdir(), "windtunnel-web-"));
let files = 0;

/** Removes what open wrote. */
export function clean(): void {
  rmSync(folder, { recursive: true, force: true });
}

/** Writes the page to disk; returns its path. */
export function write(model: Model | string): string {
  const path = join(folder, `report-${files++}.html`);
  writeFileSync(path, fill(typeof model === "string" ? model : JSON.stringify(model)));
  return path;
}

/** Opens a page that write wrote, and waits until it is drawn. */
export async function open(browser: Browser, path: string, fragment = "", options: BrowserContextOptions = {}): Promise<Opened> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, acceptDownloads: true, ...options });
  const page = await context.newPage();
  const troubles: string[] = [];
  const url = pathToFileURL(path).href;
  page.on("console", (m) => {
    if (m.type() === "error" || m.type() === "warning") troubles.push(`console: ${m.text()}`);
  });
  page.on("pageerror", (e) => troubles.push(`error: ${e.message}`));
  page.on("request", (r) => {
    // Pictures for downloads are data: and stay in the page.
    if (r.url().split("#")[0] !== url && !/^(data|blob):/.test(r.url())) troubles.push(`request: ${r.url()}`);
  });
  await page.goto(url + fragment);
  await page.waitForSelector("[data-ready], .fatal");
  return { page, troubles };
}
