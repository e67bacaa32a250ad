// Loads under a fault: how long answers took, who gave them and what failed,
// with lines where the harm set in and where it was healed, as observed.
import * as Plot from "@observablehq/plot";
import type { JSX } from "preact";
import { count, number, shortTime, time, value } from "../format";
import type { Failover, Harm, Load, Variant } from "../model";
import { logTicks, plotStyle } from "../parts/axis";
import { Chart, type Drawn, type Hit } from "../parts/chart";
import { Section, Select } from "../parts/controls";
import { usePage } from "../parts/context";
import { shown, type View } from "../view";

export function Failovers(): JSX.Element | null {
  const { view, state, set } = usePage();
  const loads = shown(view, state).loads.filter((l) => of(view, l.name).length > 0);
  const load = loads.find((l) => l.name === state.under) ?? loads[0];
  if (view.model.failovers.length === 0) return null;
  if (load === undefined) {
    return (
      <Section id="failover" title="Failover">
        <p class="empty">Every load under a fault is switched off.</p>
      </Section>
    );
  }
  const blocks = [...new Set(of(view, load.name).map((f) => view.trial(f.trial)?.block ?? 0))].sort((a, b) => a - b);
  const block = blocks.find((b) => b === state.round) ?? blocks[0];
  const tools = (
    <>
      <Select label="load" value={load.name} onChange={(under) => set({ under })}>
        {loads.map((l) => (
          <option key={l.name} value={l.name}>
            {l.name}
          </option>
        ))}
      </Select>
      <Select label="block" value={String(block)} onChange={(b) => set({ round: Number(b) })}>
        {blocks.map((b) => (
          <option key={b} value={b}>
            {b}
          </option>
        ))}
      </Select>
    </>
  );
  const lead = "One trial of each variant. Above: response time, the line is the median, the dots are the slowest. Below: requests by who answered them; red ones failed. Vertical lines: where the harm set in and where it was healed, as observed.";
  return (
    <Section id="failover" title="Failover" lead={lead} tools={tools}>
      {shown(view, state).variants.map((v) => (
        <VariantFailover key={v.name} variant={v} load={load} block={block ?? 0} />
      ))}
    </Section>
  );
}

/** The failovers of all trials of a load. */
function of(view: View, load: string): Failover[] {
  return view.model.failovers.filter((f) => view.trial(f.trial)?.load === load);
}

function VariantFailover(props: { variant: Variant; load: Load; block: number }): JSX.Element | null {
  const { view } = usePage();
  const { variant, load, block } = props;
  const found = of(view, load.name).find((f) => {
    const t = view.trial(f.trial);
    return t?.variant === variant.name && t.block === block;
  });
  if (found === undefined) return null;
  const limits = limitsOf(of(view, load.name));
  const caption = (
    <>
      <h3>{variant.name}</h3>{" "}
      <span>
        trial {found.trial}
        {found.missing > 0 ? `; ${count(found.missing)} requests are missing: the trace was full` : ""}
      </span>
    </>
  );
  const legend = [...found.answerers.map((a, i) => ({ label: a.home ? a.name : `${a.name}, not home`, color: color(i) })), { label: "failed", color: "var(--bad)" }];
  const foot = (
    <div class="legend">
      {legend.map((l) => (
        <span key={l.label}>
          <i class="dot" style={{ background: l.color }} />
          {l.label}
        </span>
      ))}
    </div>
  );
  return <Chart title={`${load.name} over time, ${variant.name}`} caption={caption} description={describeFailover(found)} draw={(width) => draw(found, limits, width)} on={[view, found]} foot={foot} legend={legend} />;
}

function color(i: number): string {
  return `var(--part${i % 6})`;
}

/** What a listener hears of the picture. */
export function describeFailover(f: Failover): string {
  const answered = f.answerers.map((a, i) => `${count(sum(f.answered[i] ?? []))} answered by ${a.name}`);
  const moments = momentsOf(f.harms).map((m) => `${m.text} at ${number(m.at)} s`);
  return [`${count(sum(f.failed))} requests failed`, ...answered, ...moments].join("; ");
}

interface Moment {
  at: number;
  text: string;
}

/** When each harm set in and was healed, in order. */
export function momentsOf(harms: Harm[]): Moment[] {
  const all: Moment[] = [];
  for (const h of harms) {
    const what = h.struck.length > 0 ? `${h.kind} ${h.struck.join(", ")}` : h.kind;
    if (h.injected) all.push({ at: h.injected.from_s, text: what });
    if (h.healed) all.push({ at: h.healed.from_s, text: `${h.kind} healed` });
  }
  return all.sort((a, b) => a.at - b.at);
}

function sum(xs: number[]): number {
  return xs.reduce((a, b) => a + b, 0);
}

interface Limits {
  times: [number, number];
  rate: number;
  end: number;
}

/** One scale for all variants: they are to be compared. */
function limitsOf(all: Failover[]): Limits {
  const times = all.flatMap((f) => [...f.median_s, ...f.slowest_s]).filter((t) => t > 0);
  const rates = all.flatMap((f) => f.failed.map((n, i) => (n + sum(f.answered.map((a) => a[i] ?? 0))) / f.slot_s));
  const lo = times.reduce((a, b) => Math.min(a, b), Infinity);
  const hi = times.reduce((a, b) => Math.max(a, b), 0);
  return {
    times: Number.isFinite(lo) ? [lo / 1.2, hi * 1.2] : [1e-4, 1],
    rate: rates.reduce((a, b) => Math.max(a, b), 1),
    end: all.reduce((end, f) => Math.max(end, f.failed.length * f.slot_s), 0) || 1,
  };
}

const top = { height: 190, marginTop: 22, marginBottom: 8 };
const strip = { height: 130, marginTop: 10, marginBottom: 40 };
const sides = { marginLeft: 62, marginRight: 14 };

function draw(f: Failover, limits: Limits, width: number): Drawn {
  const upper = responses(f, limits, width);
  const lower = answers(f, limits, width);
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("overflow", "visible");
  svg.setAttribute("width", String(width));
  svg.setAttribute("height", String(top.height + strip.height));
  svg.setAttribute("viewBox", `0 0 ${width} ${top.height + strip.height}`);
  lower.setAttribute("y", String(top.height));
  svg.append(upper, lower);
  const x = (upper as unknown as Plot.Plot).scale("x");
  const hits: Hit[] = f.failed.map((failed, i) => ({
    x: Number(x?.apply((i + 0.5) * f.slot_s)),
    y: 40,
    title: `${number(i * f.slot_s)} to ${number((i + 1) * f.slot_s)} s`,
    rows: [
      ...f.answerers.map((a, k) => ({ label: a.name, value: count(f.answered[k]?.[i] ?? 0), color: color(k) })),
      { label: "failed", value: count(failed), color: "var(--bad)" },
      { label: "median", value: f.median_s[i] ? time(f.median_s[i] ?? 0) : "–" },
      { label: "slowest", value: f.slowest_s[i] ? time(f.slowest_s[i] ?? 0) : "–" },
    ],
  }));
  return { svg, hits, along: "x" };
}

/** Lines where something happened; a fault's colour is not a failure's. */
function events(f: Failover): Plot.Markish {
  return Plot.ruleX(momentsOf(f.harms), { x: "at", stroke: "var(--warn)", strokeWidth: 1.6, strokeDasharray: "5 3" });
}

function responses(f: Failover, limits: Limits, width: number): SVGSVGElement {
  const at = (i: number): number => (i + 0.5) * f.slot_s;
  const medians = f.median_s.map((y, i) => ({ x: at(i), y: y > 0 ? y : Number.NaN }));
  const slowest = f.slowest_s.map((y, i) => ({ x: at(i), y })).filter((p) => p.y > 0);
  const ticks = logTicks(...limits.times);
  const late = (m: Moment): boolean => m.at > limits.end * 0.7;
  const named = momentsOf(f.harms).map((m, i) => ({ ...m, dy: i % 2 === 0 ? -14 : -2 }));
  const names = (side: (typeof named)[number][], anchor: "start" | "end"): Plot.Markish[] =>
    side.map((m) => Plot.text([m], { x: "at", frameAnchor: "top", dy: m.dy, dx: anchor === "start" ? 4 : -4, text: "text", textAnchor: anchor, fill: "var(--warn)" }));
  return Plot.plot({
    width,
    ...top,
    ...sides,
    style: plotStyle,
    x: { domain: [0, limits.end], axis: null },
    y: { type: "log", domain: limits.times },
    marks: [
      Plot.gridY(ticks, { stroke: "var(--grid)", strokeOpacity: 1 }),
      events(f),
      Plot.lineY(medians, { x: "x", y: "y", stroke: "var(--text)", strokeWidth: 1.4 }),
      Plot.dot(slowest, { x: "x", y: "y", r: 1.8, fill: "var(--density)", stroke: "var(--paper)", strokeWidth: 0.5 }),
      ...names(named.filter((m) => !late(m)), "start"),
      ...names(named.filter(late), "end"),
      Plot.axisY(ticks, { text: (v: number) => shortTime(v), tickSize: 0, label: null, color: "var(--muted)" }),
    ],
  }) as SVGSVGElement;
}

interface Bar {
  x1: number;
  x2: number;
  y1: number;
  y2: number;
  fill: string;
}

/** Who answered, stacked, with what failed on top. */
export function stacked(f: Failover): Bar[] {
  return f.failed.flatMap((failed, i) => {
    let below = 0;
    const one = (n: number, fill: string): Bar => ({ x1: i * f.slot_s, x2: (i + 1) * f.slot_s, y1: below / f.slot_s, y2: (below += n) / f.slot_s, fill });
    return [...f.answered.map((a, k) => one(a[i] ?? 0, color(k))), one(failed, "var(--bad)")].filter((b) => b.y2 > b.y1);
  });
}

function answers(f: Failover, limits: Limits, width: number): SVGSVGElement {
  return Plot.plot({
    width,
    ...strip,
    ...sides,
    style: plotStyle,
    x: { domain: [0, limits.end] },
    y: { domain: [0, limits.rate] },
    marks: [
      Plot.rect(stacked(f), { x1: "x1", x2: "x2", y1: "y1", y2: "y2", fill: (b: Bar) => b.fill, insetRight: 0.3 }),
      events(f),
      Plot.ruleY([0], { stroke: "var(--axis)" }),
      Plot.axisX({ ticks: 10, tickSize: 0, label: "seconds since the window began", labelAnchor: "center", labelArrow: "none", color: "var(--muted)" }),
      Plot.axisY([0, limits.rate], { tickFormat: (v: number) => value(v, "/s"), tickSize: 0, label: null, color: "var(--muted)" }),
    ],
    color: { type: "identity" },
  }) as SVGSVGElement;
}
