// One trial over time: every request as a density, or a flow by its intervals.
import * as Plot from "@observablehq/plot";
import type { JSX } from "preact";
import { count, number, shortTime, time, value } from "../format";
import type { Timeline } from "../model";
import { logTicks, plotStyle } from "../parts/axis";
import { Chart, type Drawn, type Hit } from "../parts/chart";
import { Section, Select } from "../parts/controls";
import { usePage } from "../parts/context";
import type { View } from "../view";
import { FlowChart } from "./flows";

export function Latency(): JSX.Element {
  const { view, state, set } = usePage();
  const { timelines, flows } = view.model;
  const requests = "Every request of one trial: the darker, the more requests. Gaps are stalls; red marks count failures; the line is the mean, the dots are the slowest.";
  const trials = [...timelines, ...flows].map((t) => t.trial);
  const chosen = trials.find((t) => t === state.trial) ?? trials[0];
  const timeline = timelines.find((t) => t.trial === chosen);
  const flow = flows.find((f) => f.trial === chosen);
  if (chosen === undefined) {
    return (
      <Section id="latency" title="Over time">
        <p class="empty">No trial kept what it measured over time.</p>
      </Section>
    );
  }
  return (
    <Section
      id="latency"
      title="Over time"
      lead={timeline ? requests : "One trial, interval by interval: what arrived, and under it what was sent again or lost."}
      tools={
        <Select label="trial" value={String(chosen)} onChange={(t) => set({ trial: Number(t) })}>
          {grouped(view, trials).map((g) => (
            <optgroup key={g.name} label={g.name}>
              {g.trials.map((t) => (
                <option key={t} value={t}>
                  {trialName(view, t)}
                </option>
              ))}
            </optgroup>
          ))}
        </Select>
      }
    >
      {timeline && <Chart title={`latency over time, ${trialName(view, chosen)}`} caption={<h3>{trialName(view, chosen)}</h3>} description={describe(timeline)} draw={(width) => draw(timeline, width)} on={[view, chosen]} />}
      {flow && <FlowChart flow={flow} name={trialName(view, chosen)} />}
    </Section>
  );
}

function grouped(view: View, trials: number[]): { name: string; trials: number[] }[] {
  const groups = new Map<string, number[]>();
  for (const t of trials) {
    const trial = view.trial(t);
    const name = trial ? `${trial.variant}, ${trial.load}` : "unknown";
    groups.set(name, [...(groups.get(name) ?? []), t]);
  }
  return [...groups].map(([name, list]) => ({ name, trials: list }));
}

function trialName(view: View, index: number): string {
  const t = view.trial(index);
  if (t === undefined) return `trial ${index}`;
  return `trial ${index}: ${t.variant}, ${t.load}, block ${t.block}${t.state === "done" ? "" : ` (${t.state})`}`;
}

function describe(t: Timeline): string {
  const failed = sum(t.failed);
  return `${count(sum(t.succeeded))} successes, ${count(failed)} failures in ${number(t.succeeded.length * t.slot_s)} seconds; slowest ${time(Math.max(0, ...t.max_s))}`;
}

function sum(xs: number[]): number {
  return xs.reduce((a, b) => a + b, 0);
}

const top = { height: 300, marginTop: 8, marginBottom: 8 };
const strip = { height: 96, marginTop: 22, marginBottom: 40 };
const sides = { marginLeft: 58, marginRight: 14 };

function draw(t: Timeline, width: number): Drawn {
  const slots = Math.max(t.succeeded.length, t.failed.length, 1);
  const end = slots * t.slot_s;
  const upper = density(t, width, end);
  const lower = rates(t, width, end);
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("width", String(width));
  svg.setAttribute("height", String(top.height + strip.height));
  svg.setAttribute("viewBox", `0 0 ${width} ${top.height + strip.height}`);
  lower.setAttribute("y", String(top.height));
  svg.append(upper, lower);
  const x = (upper as unknown as Plot.Plot).scale("x");
  const hits: Hit[] = Array.from({ length: slots }, (_, i) => ({
    x: Number(x?.apply((i + 0.5) * t.slot_s)),
    y: 28,
    title: `${number(i * t.slot_s)} to ${number((i + 1) * t.slot_s)} s`,
    rows: [
      { label: "successes", value: count(t.succeeded[i] ?? 0) },
      { label: "failures", value: count(t.failed[i] ?? 0) },
      { label: "mean", value: t.succeeded[i] ? time(t.mean_s[i] ?? Number.NaN) : "–" },
      { label: "slowest", value: t.succeeded[i] ? time(t.max_s[i] ?? Number.NaN) : "–" },
    ],
  }));
  return { svg, hits, along: "x" };
}

interface Box {
  x1: number;
  x2: number;
  y1: number;
  y2: number;
  n: number;
}

/** The cells of the timeline as rectangles; the last bound has no upper edge. */
function boxes(t: Timeline): Box[] {
  return t.cells.flatMap(([slot, bound, n]) => {
    const y1 = t.bounds_s[bound];
    if (y1 === undefined) return [];
    const y2 = t.bounds_s[bound + 1] ?? y1 * 1.5;
    return [{ x1: slot * t.slot_s, x2: (slot + 1) * t.slot_s, y1: Math.max(y1, y2 / 3), y2, n }];
  });
}

function density(t: Timeline, width: number, end: number): SVGSVGElement {
  const cells = boxes(t);
  const most = Math.max(1, ...cells.map((c) => c.n));
  const maxima = t.max_s.map((y, i) => ({ x: (i + 0.5) * t.slot_s, y })).filter((p) => p.y > 0);
  const means = t.mean_s.map((y, i) => ({ x: (i + 0.5) * t.slot_s, y: y > 0 ? y : Number.NaN }));
  const lo = Math.min(...cells.map((c) => c.y1), ...maxima.map((p) => p.y));
  const hi = Math.max(...cells.map((c) => c.y2), ...maxima.map((p) => p.y));
  const domain: [number, number] = Number.isFinite(lo) ? [lo, hi * 1.1] : [1e-5, 1];
  const ticks = logTicks(...domain);
  return Plot.plot({
    width,
    ...top,
    ...sides,
    style: plotStyle,
    x: { domain: [0, end], axis: null },
    y: { type: "log", domain, clamp: true },
    marks: [
      Plot.gridY(ticks, { stroke: "var(--grid)", strokeOpacity: 1 }),
      // Opacity by the root of the count: single slow requests stay visible.
      Plot.rect(cells, { x1: "x1", x2: "x2", y1: "y1", y2: "y2", fill: "var(--density)", fillOpacity: (c: Box) => 0.12 + 0.88 * Math.sqrt(c.n / most), inset: 0.25 }),
      Plot.lineY(means, { x: "x", y: "y", stroke: "var(--text)", strokeWidth: 1.25 }),
      Plot.dot(maxima, { x: "x", y: "y", r: 1.6, fill: "var(--density)", stroke: "var(--paper)", strokeWidth: 0.5 }),
      Plot.axisY(ticks, { text: (v: number) => shortTime(v), tickSize: 0, label: null, color: "var(--muted)" }),
    ],
    opacity: { type: "identity" },
  }) as SVGSVGElement;
}

interface Bar {
  x1: number;
  x2: number;
  n: number;
}

function rates(t: Timeline, width: number, end: number): SVGSVGElement {
  const bars = (counts: number[]): Bar[] => counts.map((n, i) => ({ x1: i * t.slot_s, x2: (i + 1) * t.slot_s, n: n / t.slot_s }));
  const failed = bars(t.failed).filter((b) => b.n > 0);
  const most = Math.max(1, ...bars(t.succeeded).map((b) => b.n), ...failed.map((b) => b.n));
  return Plot.plot({
    width,
    ...strip,
    ...sides,
    style: plotStyle,
    x: { domain: [0, end] },
    y: { domain: [0, most] },
    marks: [
      Plot.rectY(bars(t.succeeded), { x1: "x1", x2: "x2", y: "n", fill: "var(--bar)", insetRight: 0.5 }),
      Plot.rectY(failed, { x1: "x1", x2: "x2", y: "n", fill: "var(--bad)", insetRight: 0.5 }),
      // A mark of fixed size too: one failure among thousands is no visible bar.
      Plot.dot(failed, { x: (b: Bar) => (b.x1 + b.x2) / 2, frameAnchor: "top", dy: -6, symbol: "times", r: 3.5, stroke: "var(--bad)", strokeWidth: 2 }),
      Plot.ruleY([0], { stroke: "var(--axis)" }),
      Plot.axisX({ ticks: 10, tickSize: 0, label: "seconds since the load began", labelAnchor: "center", labelArrow: "none", color: "var(--muted)" }),
      Plot.axisY([0, most], { tickFormat: (v: number) => value(v, "/s"), tickSize: 0, label: null, color: "var(--muted)" }),
    ],
  }) as SVGSVGElement;
}
