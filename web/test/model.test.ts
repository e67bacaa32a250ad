import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { parse, unpack } from "../src/read";
import { corrected, marks, pairs, viewOf, wholeRun, worst } from "../src/view";
import { parseState } from "../src/state";
import { shown } from "../src/view";
import { sheetOf, sorted } from "../src/parts/table";
import { logTicks, quantileTicks, spread } from "../src/parts/axis";
import { layout, splitHop } from "../src/sections/layout";
import { ranges } from "../src/sections/findings";
import { spans } from "../src/sections/flows";
import { oursText, safeLink, taken } from "../src/sections/published";
import { describeFailover, momentsOf, stacked } from "../src/sections/failover";
import { makeFailovers } from "./fixtures/failovers";
import { makeFlows } from "./fixtures/flows";
import { make } from "./fixtures/make";

const model = make({ blocks: 6, timelines: 2 });
const view = viewOf(parse(JSON.stringify(model)));

test("the data is plain, or gzip as base64", async () => {
  const text = JSON.stringify(model);
  expect(await unpack(`\n${text}\n`)).toBe(text);
  expect(await unpack(gzipSync(text).toString("base64"))).toBe(text);
});

test("Go's null lists become lists", () => {
  const bare = parse('{"schema":1,"name":"x","run":{},"answer":null,"cells":[{"values":null}],"topology":{"nodes":null,"paths":null},"timelines":[{"cells":null}]}');
  expect(bare.answer).toEqual([]);
  expect(bare.variants).toEqual([]);
  expect(bare.cells[0]?.values).toEqual([]);
  expect(bare.timelines[0]?.failed).toEqual([]);
  expect(bare.topology).toEqual({ nodes: [], paths: [] });
});

test.each([
  ["{{data}}", /not JSON/],
  ["null", /no data/],
  ['{"schema":2}', /schema/],
])("%s is refused", (text, reason) => {
  expect(() => parse(text)).toThrow(reason);
});

test("a seed of 64 bits keeps all its digits", () => {
  expect(parse('{"schema":1,"name":"\\"seed\\":12345678901234567890","run":{"seed":18446744073709551615}}').run.seed).toBe("18446744073709551615");
  expect(parse('{"schema":1,"run":{"seed":7}}').run.seed).toBe(7);
});

test("effects are paired by block; failed trials leave their block out", () => {
  const own = view.cell("nft-service", "steady", "response.p50")?.values ?? [];
  const all = pairs(view, "nft-service", "steady", "response.p50");
  expect(all.map((p) => p.block)).toEqual([0, 1, 2, 3, 4, 5]);
  const base = view.cell("direct", "steady", "response.p50")?.values.find((v) => v.block === 3);
  const other = own.find((v) => v.block === 3);
  expect(all[3]?.difference).toBeCloseTo((other?.value ?? 0) - (base?.value ?? 0), 12);
  const failed = model.trials.find((t) => t.state === "failed");
  expect(pairs(view, failed?.variant ?? "", failed?.load ?? "", "response.p50").map((p) => p.block)).not.toContain(failed?.block);
});

test("a load's main metrics are those that the model has", () => {
  const flows = viewOf(parse(JSON.stringify(makeFlows())));
  expect(flows.main(flows.model.loads[1]!).map((m) => m.name)).toEqual(["loss", "goodput", "jitter", "cpu.gbit.total"]);
  expect(flows.main({ ...flows.model.loads[1]!, main: ["loss", "unknown"] }).map((m) => m.name)).toEqual(["loss"]);
  expect(spans([1, 1, 0.5])).toEqual([{ x1: 0, x2: 1 }, { x1: 1, x2: 2 }, { x1: 2, x2: 2.5 }]);
});

test("invalid values are in no pair", () => {
  const copy = structuredClone(model);
  const cell = copy.cells.find((c) => c.variant === "direct" && c.load === "steady" && c.metric === "response.p50");
  cell!.values[2]!.invalid = true;
  expect(pairs(viewOf(copy), "envoy", "steady", "response.p50").map((p) => p.block)).toEqual([0, 1, 3, 4, 5]);
});

test("findings stand where they concern something", () => {
  const rules = (v: string, l: string): string[] => view.findings(v, l).map((f) => f.rule);
  expect(rules("envoy", "steady")).toEqual(["few-samples", "claim-broken"]);
  expect(rules("envoy", "peak")).toEqual(["throttled", "closed-loop", "claim-broken"]);
  expect(rules("direct", "steady")).toEqual([]);
  expect(view.model.findings.filter(wholeRun).map((f) => f.rule)).toEqual(["shared-cores"]);
  // A note that names p99.9 marks only that.
  expect(marks(view, "envoy", "steady", "response.p99.9").map((f) => f.rule)).toContain("few-samples");
  expect(marks(view, "envoy", "steady", "response.p99").map((f) => f.rule)).toEqual(["claim-broken"]);
  // A failed trial is in no estimate, so it marks no number.
  const failed = model.trials.find((t) => t.state === "failed");
  expect(view.findings(failed?.variant ?? "", failed?.load ?? "").map((f) => f.rule)).toContain("trial-failed");
  expect(marks(view, failed?.variant ?? "", failed?.load ?? "", "response.p50")).toEqual([]);
  expect(worst(view.model.findings)).toBe("invalid");
  expect(worst([])).toBeUndefined();
});

test("the control is in no family of tests", () => {
  const c = view.comparison("envoy", "steady", "response.p50");
  expect(corrected(c!)).toBe(true);
  expect(corrected({ ...c!, p_holm: 0 })).toBe(false);
  expect(corrected({ ...c!, exploratory: true })).toBe(false);
});

test("variants keep their looks when others are switched off", () => {
  expect(new Set(model.variants.map((v) => view.look(v.name).color)).size).toBe(model.variants.length);
  const state = parseState("#hide=nft-service&loads=peak");
  expect(shown(view, state).variants.map((v) => v.name)).toEqual(["direct", "envoy", "control"]);
  expect(shown(view, state).loads.map((l) => l.name)).toEqual(["steady"]);
});

test("tables sort both ways, missing values last", () => {
  const columns = [{ id: "x", head: "x", text: (r: { x: number | undefined }) => String(r.x), sort: (r: { x: number | undefined }) => r.x }];
  const rows = [{ x: 10 }, { x: undefined }, { x: 9 }, { x: 100 }];
  expect(sorted(rows, columns, "x").map((r) => r.x)).toEqual([9, 10, 100, undefined]);
  expect(sorted(rows, columns, "-x").map((r) => r.x)).toEqual([100, 10, 9, undefined]);
  expect(sorted(rows, columns, "nonsense")).toBe(rows);
  expect(sheetOf(columns, rows).raw).toEqual([["10"], ["undefined"], ["9"], ["100"]]);
});

test("ticks", () => {
  expect(logTicks(4e-5, 3e-3)).toEqual([5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3]);
  expect(logTicks(1e-6, 1)).toEqual([1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1]);
  expect(quantileTicks(0.9995)).toEqual([0, 0.5, 0.9, 0.99, 0.999]);
});

test("labels move apart and stay inside", () => {
  const ys = spread([100, 101, 102, 300], 14, 0, 305);
  for (let i = 1; i < ys.length; i++) expect(ys[i]! - ys[i - 1]!).toBeGreaterThanOrEqual(14);
  expect(Math.max(...spread([300, 301, 304], 14, 0, 305))).toBeLessThanOrEqual(305);
});

test("the picture holds every hop in its place", () => {
  expect(splitHop("client-0 side car")).toEqual({ where: "client-0", what: "side car" });
  const path = model.topology.paths.find((p) => p.variant === "envoy")?.hops ?? [];
  const l = layout(model.topology.nodes, path);
  expect(l.hops.map((h) => h.label)).toEqual(["generator", "sidecar", "nftables", "sidecar", "app"]);
  expect(l.lines).toHaveLength(4);
  const inside = (name: string, hop: number): boolean => {
    const box = [...l.pods, ...l.nodes].find((b) => b.label === name);
    const h = l.hops[hop];
    return box !== undefined && h !== undefined && h.x >= box.x && h.y >= box.y && h.x + h.width <= box.x + box.width && h.y + h.height <= box.y + box.height;
  };
  expect([inside("client-0", 0), inside("client-0", 1), inside("node-0", 2), inside("client-0", 2), inside("server-0", 3), inside("server-0", 4)]).toEqual([true, true, true, false, true, true]);
});

test("a hop through an unknown place gets a place", () => {
  const l = layout(model.topology.nodes, ["client-0 generator", "gateway-east", "server-0 app"]);
  expect(l.nodes.map((n) => n.label)).toEqual(["node-0", "gateway-east", "node-1"]);
  expect(l.hops).toHaveLength(3);
});

test("clusters are framed where there is more than one", () => {
  expect(layout(model.topology.nodes, []).groups).toEqual([]);
  const two = model.topology.nodes.map((n, i) => ({ ...n, cluster: `c${i}` }));
  expect(layout(two, []).groups.map((g) => g.label)).toEqual(["lab, c0", "lab, c1"]);
});

test("lists of trials are short", () => {
  expect(ranges([5, 3, 4, 9, 9])).toBe("3–5, 9");
  expect(ranges([1, 2])).toBe("1, 2");
  expect(ranges([])).toBe("");
});

test("published figures and claims say what they are", () => {
  const [source] = view.model.published ?? [];
  expect(source?.cells.map((c) => oursText(view, c).replace(/\u00a0/g, " "))).toEqual([expect.stringMatching(/^71.0 µs \[70.0, 72.0\]$/), expect.stringContaining("743 µs"), "–"]);
  expect(taken(source!.claims[0]!)).toBe("response.p50 of envoy higher than that of direct");
  expect(taken({ ...source!.claims[1]!, size: "by 3 %" })).toBe("response.p50 of nft-service equal to that of direct by 3 %");
  expect(["https://example.org", "http://example.org", "javascript:alert(1)", ""].map(safeLink)).toEqual([true, true, false, false]);
  expect(parse('{"schema":1,"name":"x","run":{},"published":[{"source":"a","cells":null}]}').published).toEqual([{ source: "a", cells: [], claims: [] }]);
});

test("a failover is told in the order of what happened", () => {
  const [f] = parse(JSON.stringify(makeFailovers())).failovers;
  expect(momentsOf(f!.harms)).toEqual([{ at: 2.01, text: "kill server-0" }, { at: 4, text: "kill healed" }]);
  expect(momentsOf([{ kind: "stall", struck: [] }])).toEqual([]);
  const bars = stacked(f!);
  expect(bars.filter((b) => b.fill === "var(--bad)").map((b) => [b.y1, b.y2])[0]).toEqual([0, 200]);
  expect(bars[0]).toMatchObject({ x1: 0, y1: 0, y2: 200, fill: "var(--part0)" });
  const failed = f!.failed.reduce((a, b) => a + b, 0);
  expect(describeFailover(f!)).toBe(`${failed} requests failed; ${800} answered by east; ${400 - failed} answered by west; kill server-0 at 2.01 s; kill healed at 4.00 s`);
});

test("traffic is drawn in pods, in nodes and on the underlay", () => {
  const device = { in_pps: 0, out_pps: 0, dropped_pps: 0 };
  const devices = [
    { ...device, kind: "pod", place: "client-0", name: "eth0", in_bps: 1e6, out_bps: 2.04e9 },
    { ...device, kind: "node", place: "node-0", name: "flannel.1", in_bps: 0, out_bps: 2.05e9 },
    { ...device, kind: "underlay", place: "node-0", name: "eth0", in_bps: 0, out_bps: 2e9 },
    { ...device, kind: "underlay", place: "node-1", name: "eth0", in_bps: 1e9, out_bps: 0 },
    { ...device, kind: "pod", place: "nowhere", name: "eth0", in_bps: 1, out_bps: 1 },
  ];
  const path = ["client-0 generator", "server-0 app"];
  const bare = layout(model.topology.nodes, path);
  const l = layout(model.topology.nodes, path, devices);
  expect(bare.rates).toEqual([]);
  expect(bare.underlay).toEqual([]);
  expect(l.rates.map((r) => r.text.replace(/\u00a0/g, " "))).toEqual(["eth0 ↓ 1.00 Mbit/s ↑ 2.04 Gbit/s", "flannel.1 ↓ 0 bit/s ↑ 2.05 Gbit/s", "eth0 ↓ 0 bit/s ↑ 2.00 Gbit/s", "eth0 ↓ 1.00 Gbit/s ↑ 0 bit/s"]);
  expect(l.underlay).toHaveLength(3);
  const [busiest, other] = l.underlay;
  expect(busiest?.width).toBeGreaterThan(other?.width ?? 99);
  expect(l.height).toBeGreaterThan(bare.height);
  for (const r of l.rates) expect(r.y).toBeLessThan(l.height);
});
