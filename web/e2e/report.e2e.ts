import { readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { makeFailovers } from "../test/fixtures/failovers";
import { makeFlows } from "../test/fixtures/flows";
import { make } from "../test/fixtures/make";
import type { Model } from "../src/model";
import { launch } from "./browser";
import { clean, open, write, type Opened } from "./page";

const model = make({ blocks: 6, timelines: 8 });
let browser: Browser;
let path = "";

beforeAll(async () => {
  browser = await launch();
  path = write(model);
});

afterAll(async () => {
  await browser.close();
  clean();
});

async function numbers(page: Page, selector: string): Promise<number[]> {
  return page.locator(selector).evaluateAll((all) => all.map((e) => Number(e.textContent)));
}

describe("the whole page", () => {
  let o: Opened;
  beforeEach(async () => {
    o = await open(browser, path);
  });
  afterEach(async () => {
    expect(o.troubles).toEqual([]);
    await o.page.context().close();
  });

  test("shows every section with something in it", async () => {
    expect(await o.page.title()).toBe("sidecar-cost (test data): Windtunnel report");
    expect(await o.page.locator("h1").textContent()).toBe(model.question);
    expect(await o.page.locator(".answer p").count()).toBe(model.answer.length);
    expect(await o.page.locator("#summary table").count()).toBe(2);
    expect(await o.page.locator("#summary tbody tr").count()).toBe(8);
    expect(await o.page.locator("#effects svg[role=img]").count()).toBe(2);
    expect(await o.page.locator("#results tbody tr").count()).toBe(2 * 4 * model.metrics.filter((m) => m.primary).length);
    expect(await o.page.locator("#curves svg[role=img]").count()).toBe(2);
    expect(await o.page.locator("#latency svg[role=img] rect").count()).toBeGreaterThan(500);
    expect(await o.page.locator("#resources svg[role=img]").count()).toBe(2);
    expect(await o.page.locator("#ledger tbody tr").count()).toBe(model.ledger.length);
    expect(await o.page.locator("#topology svg.topology").count()).toBe(1);
    expect(await o.page.locator(".findings dt").count()).toBe(model.findings.length);
    expect(await o.page.locator("#provenance .trial").count()).toBe(model.trials.length);
    expect(await o.page.locator("#provenance tbody tr").count()).toBe(model.trials.length);
  });

  test("the answer comes first, with warnings, gates and how to repeat it", async () => {
    expect(await o.page.locator(".warnings li").allTextContents()).toEqual([expect.stringContaining("1 trial failed"), expect.stringContaining("retries")]);
    expect(await o.page.locator(".gates li.passed").count()).toBe(1);
    expect(await o.page.locator(".gates li.failed").textContent()).toContain("99.99%");
    expect(await o.page.locator("#answer .commands").textContent()).toContain(model.run.command);
    expect(await o.page.locator("#answer .commands").textContent()).toContain(model.run.verify);
  });

  test("the main table says what the model says", async () => {
    const row = o.page.locator("#summary table").first().locator("tbody tr").nth(2);
    const c = model.comparisons.find((x) => x.variant === "envoy" && x.load === "steady" && x.metric === "response.p50");
    const text = (await row.textContent())?.replace(/\u00a0/g, " ") ?? "";
    expect(text).toContain(`+${Math.round((c?.difference?.value ?? 0) * 1e6)} µs`);
    expect(text).toContain(`[+${Math.round((c?.difference?.lo ?? 0) * 1e6)}, +${Math.round((c?.difference?.hi ?? 0) * 1e6)}]`);
    expect(await o.page.locator("#summary table").first().locator("tbody tr").nth(1).locator(".none").textContent()).toBe("~");
    expect(await o.page.locator("#summary .floor").count()).toBe(2);
  });

  test("broken claims, differences and failed trials stand out", async () => {
    expect(await o.page.locator("#ledger .broken").textContent()).toContain("claimed: none");
    expect(await o.page.locator("#ledger tr.differs").count()).toBe(model.ledger.filter((r) => r.differs).length);
    const struck = o.page.locator("#provenance tr.struck > :first-child");
    expect(await struck.count()).toBe(1);
    expect(await struck.evaluate((e) => getComputedStyle(e).textDecorationLine)).toBe("line-through");
    expect(await o.page.locator(".trial.failed").count()).toBe(1);
  });

  test("switching a variant off takes it out of everything; the fragment keeps it", async () => {
    await o.page.locator("aside button", { hasText: "envoy" }).click();
    expect(await o.page.locator("#summary tbody tr").count()).toBe(6);
    expect(await o.page.locator("#effects svg").first().textContent()).not.toContain("envoy");
    expect(await o.page.locator("#curves svg[role=img]").first().textContent()).not.toContain("envoy");
    expect(await o.page.locator("#ledger thead").textContent()).not.toContain("envoy");
    expect(o.page.url()).toContain("hide=envoy");
    await o.page.reload();
    await o.page.waitForSelector("[data-ready]");
    expect(await o.page.locator("#summary tbody tr").count()).toBe(6);
    // A legend switches it on again.
    await o.page.locator("#curves .legend button", { hasText: "envoy" }).first().click();
    expect(await o.page.locator("#summary tbody tr").count()).toBe(8);
    expect(o.page.url()).not.toContain("hide");
  });

  test("published figures and claims stand beside ours", async () => {
    const tables = o.page.locator("#published table");
    expect(await tables.count()).toBe(2);
    expect(await tables.first().locator("tbody tr").count()).toBe(3);
    const row = (await tables.first().locator("tbody tr").nth(1).textContent())?.replace(/\u00a0/g, " ") ?? "";
    expect(row).toContain("3.0 to 3.2 ms");
    expect(row).toContain("743 µs");
    expect(row).toContain("same order");
    expect(await tables.nth(1).locator(".agreement.good").count()).toBe(1);
    expect(await o.page.locator("#published h3 a").getAttribute("href")).toBe("https://example.org/table-1");
    await o.page.locator("aside button", { hasText: "envoy" }).click();
    expect(await tables.first().locator("tbody tr").count()).toBe(1);
    expect(await tables.nth(1).locator("tbody tr").count()).toBe(1);
  });

  test("switching a load off leaves the other", async () => {
    await o.page.locator("aside button", { hasText: "peak" }).click();
    expect(await o.page.locator("#summary table").count()).toBe(1);
    expect(await o.page.locator("#effects svg[role=img]").count()).toBe(1);
    await o.page.locator("aside button", { hasText: "steady" }).click();
    expect(await o.page.locator("#summary .empty").count()).toBe(1);
  });

  test("the forest plot follows metric, scale and blocks", async () => {
    const first = o.page.locator("#effects svg[role=img]").first();
    const dots = async (): Promise<number> => first.locator("circle").count();
    const before = await dots();
    await o.page.locator("#effects input[type=checkbox]").uncheck();
    expect(await dots()).toBeLessThan(before);
    await o.page.locator("#effects select").selectOption("cpu.total");
    expect(await first.textContent()).toContain("of CPU per 1,000 requests");
    await o.page.locator("#effects button", { hasText: "relative" }).click();
    expect(await first.textContent()).toContain("ratio (log scale)");
    await o.page.locator("#effects select").selectOption("success");
    await o.page.locator("#effects button", { hasText: "absolute" }).click();
    expect(await first.textContent()).toContain("percentage points");
  });

  test("tables sort by a click, down by a second, back by a third", async () => {
    const head = o.page.locator("#provenance th button", { hasText: "trial" });
    await o.page.locator("#provenance summary").click();
    const cells = "#provenance tbody tr > :first-child";
    const order = await numbers(o.page, cells);
    await head.click();
    expect(await o.page.locator("#provenance th[aria-sort=ascending]").textContent()).toContain("trial");
    expect(await numbers(o.page, cells)).toEqual([...order].sort((a, b) => a - b));
    await head.click();
    expect(await numbers(o.page, cells)).toEqual([...order].sort((a, b) => b - a));
    expect(o.page.url()).toContain("sort.trials=-trial");
    await head.click();
    expect(await numbers(o.page, cells)).toEqual(order);
  });

  test("the results filter by words and widen to all metrics", async () => {
    await o.page.locator("#results input[type=search]").fill("envoy p99");
    expect(await o.page.locator("#results tbody tr").count()).toBe(2);
    await o.page.locator("#results button", { hasText: "all metrics" }).click();
    expect(await o.page.locator("#results tbody tr").count()).toBe(8);
    await o.page.locator("#results input[type=search]").fill("nothing like it");
    expect(await o.page.locator("#results .empty").textContent()).toBe("No row matches.");
  });

  test.each([
    ["Markdown", /^\| variant +\|[^\n]*\n\|:-+\|[^\n]*\n\| direct/],
    ["CSV", /^variant,response\.p50 \(s\),response\.p50 low,[^\r]*\r\ndirect,0\.0000/],
    ["LaTeX", /^\\begin\{tabular\}\{lrr[^\n]*\n {2}\\toprule/],
  ])("copies as %s", async (format, shape) => {
    await o.page.evaluate(() => {
      Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text: string) => void (document.documentElement.dataset["copied"] = text) } });
    });
    const button = o.page.locator("#summary .table").first().locator(".copy button", { hasText: format });
    await button.click();
    await o.page.locator("#summary .copy button", { hasText: "copied" }).waitFor();
    expect(await o.page.evaluate(() => document.documentElement.dataset["copied"])).toMatch(shape);
  });

  test("copies the old way where there is no clipboard", async () => {
    await o.page.evaluate(() => {
      Object.defineProperty(navigator, "clipboard", { value: undefined });
      document.addEventListener("copy", () => void (document.documentElement.dataset["copied"] = (document.activeElement as HTMLTextAreaElement).value));
    });
    await o.page.getByRole("button", { name: "copy: run it again" }).first().click();
    expect(await o.page.evaluate(() => document.documentElement.dataset["copied"])).toBe(model.run.command);
    expect(await o.page.locator("textarea").count()).toBe(0);
  });

  test("percentile curves switch kind and axis; failures are apart", async () => {
    const first = o.page.locator("#curves svg[role=img]").first();
    expect(await first.textContent()).toContain("99.9");
    const log = await first.innerHTML();
    await o.page.locator("#curves button", { hasText: "linear" }).click();
    expect(await first.innerHTML()).not.toBe(log);
    await o.page.locator("#curves button", { hasText: "failed" }).click();
    expect(await o.page.locator("#curves .empty").textContent()).toBe("No request failed.");
    expect(await o.page.locator("#curves svg[role=img]").count()).toBe(1);
    await o.page.locator("#curves button", { hasText: "service" }).click();
    expect(await o.page.locator("#curves svg[role=img]").count()).toBe(2);
  });

  test("values show under the pointer", async () => {
    const frame = o.page.locator("#curves .frame").first();
    await frame.hover();
    const tip = o.page.locator("#curves .tip");
    expect(await tip.textContent()).toMatch(/^p\d/);
    expect(await tip.locator("dt").allTextContents()).toEqual(["direct", "nft-service", "envoy", "control"]);
    await o.page.mouse.move(0, 0);
    expect(await tip.count()).toBe(0);
  });

  test("charts are read with the keyboard", async () => {
    await o.page.locator("#effects .frame").first().focus();
    await o.page.keyboard.press("ArrowDown");
    const tip = o.page.locator("#effects .tip");
    expect(await tip.textContent()).toContain("nft-service");
    await o.page.keyboard.press("ArrowDown");
    expect(await tip.textContent()).toContain("envoy");
    await o.page.keyboard.press("ArrowUp");
    expect(await tip.textContent()).toContain("nft-service");
    await o.page.keyboard.press("Escape");
    expect(await tip.count()).toBe(0);
  });

  test("everything that can be clicked can be reached with Tab", async () => {
    const ids = await o.page.evaluate(() => {
      const all = [...document.querySelectorAll<HTMLElement>("button:enabled, select, input, summary, a, .frame")].filter((e) => e.checkVisibility());
      all.forEach((e, i) => (e.dataset["tab"] = String(i)));
      return all.map((_, i) => String(i));
    });
    const seen = new Set<string>();
    for (let i = 0; i < ids.length + 40; i++) {
      await o.page.keyboard.press("Tab");
      const id = await o.page.evaluate(() => (document.activeElement as HTMLElement).dataset["tab"]);
      if (id !== undefined) seen.add(id);
    }
    expect(ids.filter((id) => !seen.has(id))).toEqual([]);
  });

  test("a chip works with the keyboard", async () => {
    const chip = o.page.locator("aside button", { hasText: "envoy" });
    await chip.focus();
    await o.page.keyboard.press("Space");
    expect(await chip.getAttribute("aria-pressed")).toBe("false");
    await o.page.keyboard.press("Enter");
    expect(await chip.getAttribute("aria-pressed")).toBe("true");
  });

  test("a trial is chosen from the order of trials", async () => {
    await o.page.locator(".trial:enabled").nth(4).click();
    expect(o.page.url()).toContain("trial=4");
    expect(await o.page.locator("#latency figcaption").textContent()).toContain("trial 4:");
    await o.page.locator("#latency select").selectOption("6");
    expect(await o.page.locator("#latency figcaption").textContent()).toContain("trial 6:");
  });

  test("failures are marked over time", async () => {
    const failing = model.timelines.find((t) => t.failed.some((n) => n > 0));
    await o.page.locator("#latency select").selectOption(String(failing?.trial));
    // Marks have a size of their own: one for each slot with failures.
    const marks = o.page.locator("#latency svg[role=img] g[aria-label=dot] path[d]");
    expect(await marks.count()).toBe(failing?.failed.filter((n) => n > 0).length);
  });

  test("findings are filtered from where they are counted", async () => {
    await o.page.locator("#summary .finding-count").first().click();
    expect(await o.page.locator(".findings dt").count()).toBeLessThan(model.findings.length);
    expect(o.page.url()).toContain("section=findings");
    await o.page.locator("#findings .chip").click();
    expect(await o.page.locator(".findings dt").count()).toBe(model.findings.length);
  });

  test("findings that say the same are one entry", async () => {
    await o.page.context().close();
    const m = structuredClone(model);
    const first = m.findings[0]!;
    m.findings.push({ ...first, variant: "direct", evidence: "elsewhere" });
    o = await open(browser, write(m));
    expect(await o.page.locator(".findings > li").count()).toBe(model.findings.length);
    expect(await o.page.locator(".findings > li", { hasText: first.cause }).locator("dd").allTextContents()).toEqual([first.evidence, "elsewhere"]);
  });

  test("the path of another variant is drawn", async () => {
    expect(await o.page.locator("#topology svg.topology path[marker-end]").count()).toBe(4);
    await o.page.locator("#topology select").selectOption("direct");
    expect(await o.page.locator("#topology svg.topology path[marker-end]").count()).toBe(1);
  });

  test("components switch off", async () => {
    const bars = o.page.locator("#resources svg[role=img]").first().locator("g[aria-label=bar] rect");
    const before = await bars.count();
    await o.page.locator("#resources .legend button", { hasText: "generator" }).click();
    expect(await bars.count()).toBe(before - 4);
    expect(await o.page.locator("#resources").textContent()).toContain("throttled");
  });

  test("charts download as SVG and PNG that stand alone", async () => {
    for (const section of ["effects", "curves", "latency", "resources", "topology"]) {
      const [svg] = await Promise.all([o.page.waitForEvent("download"), o.page.locator(`#${section} button[aria-label="download SVG"]`).first().click()]);
      const text = readFileSync(await svg.path(), "utf8");
      expect(svg.suggestedFilename()).toMatch(/^[a-z0-9.-]+\.svg$/);
      expect(text).toMatch(/^<svg[^>]* xmlns="http:\/\/www\.w3\.org\/2000\/svg"/);
      expect(text).not.toContain("var(--");
      expect(text).toContain("<title>");
      const [png] = await Promise.all([o.page.waitForEvent("download"), o.page.locator(`#${section} button[aria-label="download PNG"]`).first().click()]);
      const bytes = readFileSync(await png.path());
      expect(bytes.subarray(1, 4).toString()).toBe("PNG");
      expect(bytes.length).toBeGreaterThan(4000);
      expect(bytes.readUInt32BE(16)).toBeGreaterThan(600);
    }
  });
});

describe("themes and paper", () => {
  const colors = (page: Page): Promise<string[]> => page.evaluate(() => [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]);

  test("light, dark, and light on paper", async () => {
    const o = await open(browser, path, "", { colorScheme: "light" });
    const light = await colors(o.page);
    await o.page.emulateMedia({ colorScheme: "dark" });
    const dark = await colors(o.page);
    expect(dark).not.toEqual(light);
    expect(light[0]).toBe("rgb(255, 255, 255)");
    await o.page.emulateMedia({ colorScheme: "dark", media: "print" });
    expect(await colors(o.page)).toEqual(light);
    expect(await o.page.locator("aside").isVisible()).toBe(false);
    expect(await o.page.locator(".copy").first().isVisible()).toBe(false);
    const pdf = await o.page.pdf({ format: "A4" });
    expect(pdf.subarray(0, 4).toString()).toBe("%PDF");
    expect(o.troubles).toEqual([]);
    await o.page.context().close();
  });

  test("on paper the list of trials is open", async () => {
    const o = await open(browser, path);
    expect(await o.page.locator("#provenance details table").isVisible()).toBe(false);
    await o.page.evaluate(() => dispatchEvent(new Event("beforeprint")));
    expect(await o.page.locator("#provenance details table").isVisible()).toBe(true);
    await o.page.evaluate(() => dispatchEvent(new Event("afterprint")));
    expect(await o.page.locator("#provenance details table").isVisible()).toBe(false);
    await o.page.context().close();
  });

  test.each([360, 768, 1024, 1920])("nothing is wider than a screen of %d pixels", async (width) => {
    const o = await open(browser, path, "", { viewport: { width, height: 800 } });
    expect(await o.page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
    expect(o.troubles).toEqual([]);
    await o.page.context().close();
  });

  test.each(["light", "dark"] as const)("text has contrast in %s", async (colorScheme) => {
    const o = await open(browser, path, "", { colorScheme });
    const pairs = await o.page.evaluate(() => {
      const style = getComputedStyle(document.documentElement);
      const names = ["text", "muted", "accent", "good", "bad", "warn"];
      const rgb = (name: string): number[] => (style.getPropertyValue(`--${name}`).trim().match(/[0-9a-f]{2}/gi) ?? []).map((h) => parseInt(h, 16) / 255);
      const light = (c: number[]): number => {
        const [r = 0, g = 0, b = 0] = c.map((x) => (x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      return names.flatMap((n) => ["paper", "wash"].map((p) => [`${n} on ${p}`, (Math.max(light(rgb(n)), light(rgb(p))) + 0.05) / (Math.min(light(rgb(n)), light(rgb(p))) + 0.05)] as const));
    });
    for (const [name, ratio] of pairs) expect(ratio, name).toBeGreaterThan(4.5);
    await o.page.context().close();
  });
});

describe("other data", () => {
  async function shows(m: Model | string, check: (page: Page) => Promise<void>, fragment = ""): Promise<void> {
    const o = await open(browser, write(m), fragment);
    await check(o.page);
    expect(o.troubles).toEqual([]);
    await o.page.context().close();
  }

  test("hostile names are text", async () => {
    const evil = `</script><script>document.title="owned"</script><img src=x onerror="document.title='owned'">`;
    const hostile = structuredClone(model);
    hostile.name = hostile.question = hostile.findings[0]!.cause = hostile.run.command = evil;
    hostile.variants[2]!.stack = [evil];
    await shows(hostile, async (page) => {
      expect(await page.title()).toBe(`${evil}: Windtunnel report`);
      expect(await page.locator("h1").textContent()).toBe(evil);
      expect(await page.locator("main img, main script").count()).toBe(0);
    });
  });

  test("even an injected script does not run, and nothing can be loaded", async () => {
    let hits = 0;
    const server = createServer((_, answer) => {
      hits++;
      answer.setHeader("Access-Control-Allow-Origin", "*");
      answer.end();
    });
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const o = await open(browser, path);
    const results = await o.page.evaluate(async (to) => {
      const script = document.createElement("script");
      script.textContent = "document.title = 'owned'";
      const image = document.createElement("img");
      const loaded = new Promise<string>((done) => {
        image.onload = () => done("loaded");
        image.onerror = () => done("refused");
      });
      image.src = `${to}x.png`;
      document.body.append(script, image);
      return [await loaded, await fetch(to).then(() => "loaded", () => "refused")];
    }, url);
    expect(results).toEqual(["refused", "refused"]);
    expect(await o.page.title()).not.toBe("owned");
    expect(hits).toBe(0);
    // The server works: without the page's policy it is reached.
    await (await fetch(url)).text();
    expect(hits).toBe(1);
    await o.page.context().close();
    server.close();
    server.closeAllConnections();
  });

  test("an almost empty model", async () => {
    const bare = '{"schema":1,"name":"bare","question":"","answer":null,"run":{"id":"r","started":"0001-01-01T00:00:00Z","took_s":0,"target":"","command":"","verify":"","baseline":"","blocks":0,"planned_trials":0,"done_trials":0,"failed_trials":0,"complete":false,"stopped":"","plan_digest":"","seed":0,"version":"","level":0.95},"variants":null,"loads":null,"metrics":null,"cells":null,"comparisons":null,"curves":null,"timelines":null,"resources":null,"ledger":null,"topology":{"nodes":null,"paths":null},"findings":null,"trials":null,"gates":null,"provenance":null}';
    await shows(bare, async (page) => {
      expect(await page.locator("h1").textContent()).toBe("bare");
      expect(await page.locator(".warnings").textContent()).toContain("not complete");
    });
  });

  test("flows: goodput and loss first, no latency anywhere, each trial over time", async () => {
    const flows = makeFlows();
    await shows(flows, async (page) => {
      const heads = async (i: number): Promise<string[]> => page.locator("#summary table").nth(i).locator("thead button").allTextContents();
      expect((await heads(0)).slice(1, 5)).toEqual(["goodput", "goodput up", "goodput down", "differencegoodput"]);
      expect((await heads(1)).slice(1, 3)).toEqual(["loss", "differenceloss"]);
      expect(await page.locator("main").textContent()).not.toContain("response");
      expect(await page.locator("#effects svg[role=img]").count()).toBe(2);
      await page.locator("#effects select").selectOption("loss");
      expect(await page.locator("#effects svg[role=img]").count()).toBe(1);
      const packets = flows.trials.find((t) => t.load === "packets" && t.variant === "envoy" && t.state === "done");
      await page.locator("#latency select").selectOption(String(packets?.index));
      expect(await page.locator("#latency svg[role=img]").getAttribute("aria-label")).toMatch(/loss up to 0\.2\d*.%/);
      await page.locator("#resources button", { hasText: "CPU per work done" }).click();
      expect(await page.locator("#resources .caption").first().textContent()).toContain("CPU per Gbit");
      await page.setViewportSize({ width: 360, height: 800 });
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
    });
  });

  test("failover: a picture a variant, by load and block, and nothing where there is no fault", async () => {
    const failovers = makeFailovers();
    await shows(failovers, async (page) => {
      expect(await page.locator("#failover svg[role=img]").count()).toBe(failovers.variants.length);
      expect(await page.locator("#failover svg[role=img]").first().getAttribute("aria-label")).toContain("kill healed at 4.00 s");
      const costs = await page.locator("#cost tbody tr").allTextContents();
      expect(costs.map((c) => c.replace(/\u00a0/g, " ")).find((c) => c.startsWith("envoy"))).toMatch(/32\.6 \[32\.3, 32\.9\].*\+31\.0.*96\.0 GiB/);
      expect(await page.locator("#cost").textContent()).toContain("2,000 pods that get 50,000 requests/s");
      expect(await page.locator("#breakdown svg[role=img]").getAttribute("aria-label")).toMatch(/^envoy: between generator and sidecar 90\.0.µs, .*server: app 30\.0.µs$/);
      expect(await page.locator("#breakdown li").allTextContents()).toEqual(["envoy: Unexplained: 150 µs, 19 %.", "direct: Not broken down: no traced request succeeded"]);
      await page.locator("#failover select").nth(1).selectOption("2");
      await page.waitForFunction(() => location.hash.includes("round=2"));
      await page.setViewportSize({ width: 360, height: 800 });
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
    });
    await shows(model, async (page) => {
      expect(await page.locator("#failover").count()).toBe(0);
      expect(await page.locator("nav").textContent()).not.toContain("Failover");
      expect(await page.locator("#cost").count()).toBe(0);
      expect(await page.locator("#breakdown").count()).toBe(0);
    });
  });

  test("no resources: it says why", async () => {
    await shows({ ...model, resources: [], unavailable: ["CPU per component: no cgroup controllers here"] }, async (page) => {
      expect(await page.locator("#resources").textContent()).toContain("Not available here:CPU per component: no cgroup controllers here");
    });
  });

  test("no estimate: the reason stands in its place", async () => {
    const m = structuredClone(model);
    for (const c of m.cells.filter((x) => x.metric === "response.p99")) {
      delete c.estimate;
      c.reason = "9 samples in all trials together";
    }
    for (const c of m.comparisons) {
      delete c.difference;
      delete c.ratio;
      c.verdict = "unknown";
      c.reason = "only 3 blocks";
    }
    await shows(m, async (page) => {
      expect(await page.locator("#results").textContent()).toContain("9 samples in all trials together");
      expect(await page.locator("#effects svg[role=img]").first().textContent()).toContain("only 3 blocks");
    });
  });

  test("data of another schema is refused in words", async () => {
    await shows('{"schema":99}', async (page) => {
      expect(await page.locator(".fatal").textContent()).toContain("schema 99");
    });
  });

  test("odd numbers draw without errors", async () => {
    const m = structuredClone(model);
    for (const c of m.curves) for (const p of c.points.slice(0, 3)) p.value = p.lo = 0;
    for (const t of m.timelines) t.max_s[0] = t.mean_s[0] = 0;
    m.timelines[1]!.cells = [];
    m.timelines[1]!.succeeded = m.timelines[1]!.mean_s = m.timelines[1]!.max_s = [];
    for (const r of m.resources) r.cpu_s_per_1k!.value = 0;
    for (const c of m.comparisons) if (c.ratio) c.ratio.lo = 0;
    await shows(m, async () => {}, "#trial=1&scale=relative&y=linear");
    await shows(m, async () => {}, "#trial=0");
  });

  test("a hundred trials: under 1.5 MB, drawn within seconds", async () => {
    const big = make({ blocks: 13, timelines: 104 });
    expect(big.trials.length).toBeGreaterThanOrEqual(100);
    expect(big.timelines.length).toBeGreaterThanOrEqual(100);
    // As Go does it above 512 KiB.
    const file = write(gzipSync(JSON.stringify(big), { level: 9 }).toString("base64"));
    expect(statSync(file).size).toBeLessThan(1.5 * 1024 * 1024);
    const o = await open(browser, file);
    const drawn = await o.page.evaluate(() => performance.now());
    expect(drawn).toBeLessThan(10_000);
    expect(await o.page.locator("#provenance .trial").count()).toBe(big.trials.length);
    expect(o.troubles).toEqual([]);
    console.log(`${statSync(file).size} bytes, ready after ${Math.round(drawn)} ms`);
    await o.page.context().close();
  });
});
