// npm run screenshot -- report.html out.png [--dark] [--full] [--width 1280]
// [--height 1100] [--at "#section=curves"] [--scale 2]; out.pdf prints instead.
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { launch } from "../e2e/browser";

const args = process.argv.slice(2);

function option(name: string, otherwise: string): string {
  const at = args.indexOf(`--${name}`);
  return at < 0 ? otherwise : (args[at + 1] ?? otherwise);
}

const page = args.find((a) => a.endsWith(".html"));
const out = args.find((a) => /\.(png|pdf)$/.test(a));
if (page === undefined || out === undefined) throw new Error("usage: npm run screenshot -- report.html out.png");

const browser = await launch();
try {
  const context = await browser.newContext({
    viewport: { width: Number(option("width", "1280")), height: Number(option("height", "1100")) },
    deviceScaleFactor: Number(option("scale", "2")),
    colorScheme: args.includes("--dark") ? "dark" : "light",
  });
  const tab = await context.newPage();
  await tab.goto(pathToFileURL(resolve(page)).href + option("at", ""));
  await tab.waitForSelector("[data-ready]");
  if (out.endsWith(".pdf")) await tab.pdf({ path: out, format: "A4" });
  else await tab.screenshot({ path: out, fullPage: args.includes("--full") });
} finally {
  await browser.close();
}
